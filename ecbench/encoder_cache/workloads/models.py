"""The vision-language models that scenarios can name; the data is in ``models.toml``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec

from ecbench.core.errors import unknown_name
from ecbench.core.toml import convert_table, parse_table

Positive = Annotated[int, msgspec.Meta(ge=1)]
_FILE = "models.toml"
ELEMENT_BYTES = 2
"""All models are served in bfloat16."""


class EncoderModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the encoder cache needs to know of a model."""

    title: str
    hidden_size: Positive
    tokens: dict[str, Positive]
    rows_per_token: Positive = 1

    @property
    def block_size_bytes(self) -> int:
        """One row of the encoder output."""
        return self.hidden_size * ELEMENT_BYTES

    def tokens_of(self, image_size: str) -> int:
        """Tokens of an image.

        Args:
            image_size: For example ``"1024x1024"``.

        Raises:
            EcbenchError: The table has no such size; the message lists those it has.
        """
        if image_size not in self.tokens:
            raise unknown_name(f"image size of {self.title}", image_size, tuple(self.tokens))
        return self.tokens[image_size]


@cache
def encoder_models() -> dict[str, EncoderModel]:
    """All models by name."""
    text = files(__package__).joinpath(_FILE).read_text()
    return convert_table(parse_table(text, _FILE), text, _FILE, dict[str, EncoderModel])


def find_model(name: str) -> EncoderModel:
    """Finds a model.

    Raises:
        EcbenchError: No such model; the message lists the choices.
    """
    models = encoder_models()
    if name not in models:
        raise unknown_name("model", name, tuple(models))
    return models[name]
