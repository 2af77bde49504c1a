"""A result whose every name tries to be more than a name."""

from __future__ import annotations

from msgspec.structs import replace

from tests.report.samples import sample_result

NAME = (
    """=cmd|' /C calc'!A0 "q" <script>stolen=1</script> </svg>]]> $x^2$ \x1b[2J\x00 \u202eevil\u202c a|b `c` \u4e2d"""
)


def hostile_result():
    result = sample_result()
    environment = replace(result.environment, device_name=NAME, emulation=NAME, stand_ins=[NAME])
    legs = [
        replace(leg, reason=leg.reason and NAME, engine=NAME, writer=NAME, notes=[NAME])
        for case in result.cases
        for leg in case.legs
    ]
    case = replace(result.cases[0], case_id=NAME, workload=NAME, params={NAME: NAME, "model": NAME}, legs=legs)
    return replace(
        result,
        environment=environment,
        started_at=f"../../{NAME}",
        settings={NAME: NAME},
        cases=[case],
        stages_s={NAME: 1.0},
    )
