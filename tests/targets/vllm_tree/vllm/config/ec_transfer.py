"""The connector's settings."""

from dataclasses import dataclass


@dataclass
class ECTransferConfig:
    ec_connector: str
    ec_role: str
    engine_id: str
    ec_connector_extra_config: dict
