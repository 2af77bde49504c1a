"""``selftest`` as a document and as checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.documents import (
    Answer,
    Document,
    FactGroup,
    Row,
    Section,
    Table,
    Tone,
    fact_groups,
    shown,
    title_of,
)
from ecbench.report.selftest_figures import (
    delay_words,
    fault_name,
    foundation_words,
    injected,
    interval_words,
    outcome_words,
    percent,
    rates_at,
    thresholds_of,
)

if TYPE_CHECKING:
    from ecbench.core.selftest_records import GateRates, InjectedFault, Promises, SelftestCase, SelftestResult

_RATE_COLUMNS = ("threshold", "delay", "failed", "95% interval", "inconclusive", "failed, gates apart")
_FAULT_COLUMNS = ("fault", "leg", "descriptors", "outcome")
_TOO_FEW = "Unknown: fewer turns were run than a gate has pairs."
_SCOPE = (
    "base and new are run in turn here, as ab does; gate compares with a stored baseline, and widens its threshold for "
    "what no single session can show"
)


def describe_selftest(result: SelftestResult) -> Document:
    """Answers, the rates, what the delays did, and every fault."""
    environment = result.environment
    emulated = (f"EMULATED: {environment.emulation}",) if environment.emulation else ()
    return Document(
        title=title_of(result),
        subtitle=f"{environment.device}, {environment.host_cpu}, {environment.host_cpus} cores",
        warnings=emulated,
        answers=tuple(answer for case in result.cases for answer in _answers(case)),
        sections=tuple(section for case in result.cases for section in (_rates(case), _effects(case), _faults(case))),
        facts=(*fact_groups(result), *map(_parameters, result.cases)),
    )


def _parameters(case: SelftestCase) -> FactGroup:
    facts = (("workload", case.workload), *((name, shown(value)) for name, value in case.params.items()))
    return FactGroup(f"Parameters of {case.case_id}", facts)


def _answers(case: SelftestCase) -> list[Answer]:
    return [_every_fault(case), _crying_wolf(case), _finding(case), _fitting(case)]


def _every_fault(case: SelftestCase) -> Answer:
    tried = injected(case.faults)
    found = [entry for entry in tried if entry.found]
    named = [entry for entry in found if entry.named is entry.fault]
    tone = Tone.GOOD if len(found) == len(tried) else Tone.BAD
    text = f"{len(found)} of {len(tried)} injected faults were found, {len(named)} of them under their own name."
    return Answer("Is every byte fault found?", text, tone)


def _crying_wolf(case: SelftestCase) -> Answer:
    question, promises = "Does the gate cry wolf here?", case.promises
    rates = rates_at(case, promises.threshold)
    if not rates:
        return Answer(question, _TOO_FEW, Tone.CAUTION)
    alarms = rates[0.0].failed
    text = (
        f"At a threshold of {percent(promises.threshold)}, {percent(alarms.share)} of gates fail on unchanged copies "
        f"({interval_words(alarms)}); promised are at most {percent(promises.false_alarms)}."
    )
    return Answer(question, text, Tone.BAD if case.cries_wolf else Tone.GOOD)


def _finding(case: SelftestCase) -> Answer:
    question = "What does it find here?"
    rates = rates_at(case, case.promises.threshold)
    if not rates:
        return Answer(question, _TOO_FEW, Tone.CAUTION)
    found = ", ".join(f"{percent(entry.failed.share)} with {percent(delay)}" for delay, entry in rates.items() if delay)
    text = f"At {percent(case.promises.threshold)}, so many gates fail: {found} of delay. Without a delay, "
    return Answer(question, f"{text}{percent(rates[0.0].inconclusive.share)} of gates are inconclusive.")


def _fitting(case: SelftestCase) -> Answer:
    question, promises = "Which threshold fits this machine?", case.promises
    if not case.rates:
        return Answer(question, _TOO_FEW, Tone.CAUTION)
    ladder = ", ".join(map(percent, thresholds_of(case)))
    rule = (
        f"with {case.pairs} pairs, at most {percent(promises.recommended_false_alarms)} of gates fail without a change "
        f"and at least {percent(promises.recommended_power)} with a delay of twice the threshold"
    )
    if case.recommended_threshold is None:
        text = f"None of {ladder} does what it should: {rule}. Give more --pairs, or a quieter machine."
        return Answer(question, text, Tone.CAUTION)
    return Answer(question, f"{percent(case.recommended_threshold)}, the first of {ladder} where {rule}.", Tone.GOOD)


def _rates(case: SelftestCase) -> Section:
    rows = tuple(Row(_rate_row(entry), _rate_tone(entry, case.promises)) for entry in case.rates)
    table = Table(_RATE_COLUMNS, rows, frozenset(_RATE_COLUMNS))
    return Section(f"The gate on {case.case_id}", table=table, notes=(foundation_words(case), _SCOPE))


def _rate_row(entry: GateRates) -> tuple[str, ...]:
    return (
        percent(entry.threshold),
        delay_words(entry.delay),
        percent(entry.failed.share),
        interval_words(entry.failed),
        percent(entry.inconclusive.share),
        f"{entry.failed_apart.count} of {entry.failed_apart.of}",
    )


def _rate_tone(entry: GateRates, promises: Promises) -> Tone:
    """Good or not where one of the rule's two figures stands; else plain."""
    if not entry.delay:
        return Tone.GOOD if entry.failed.share <= promises.recommended_false_alarms else Tone.BAD
    if entry.delay == 2 * entry.threshold:
        return Tone.GOOD if entry.failed.share >= promises.recommended_power else Tone.CAUTION
    return Tone.PLAIN


def _effects(case: SelftestCase) -> Section:
    rows = tuple(
        Row((percent(entry.delay), entry.direction, f"{100 * entry.slowdown:+.1f}%")) for entry in case.effects
    )
    columns = ("delay", "leg", "measured slowdown")
    return Section("What the delays did", table=Table(columns, rows, frozenset({"delay", "measured slowdown"})))


def _faults(case: SelftestCase) -> Section:
    rows = tuple(Row(_fault_row(entry), _fault_tone(entry)) for entry in case.faults)
    return Section("Byte faults", table=Table(_FAULT_COLUMNS, rows))


def _fault_row(entry: InjectedFault) -> tuple[str, ...]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in entry.counts.items())
    return fault_name(entry), entry.direction, counts, outcome_words(entry)


def _fault_tone(entry: InjectedFault) -> Tone:
    if not entry.injected:
        return Tone.CAUTION
    if not entry.found:
        return Tone.BAD
    return Tone.GOOD if entry.named is entry.fault else Tone.CAUTION


def selftest_checks(case: SelftestCase) -> list[CheckLine]:
    """A check per fault, one on false alarms, and one on the threshold, which is skipped where none fits."""
    return [*(_fault_check(case, entry) for entry in case.faults), _alarm_check(case), _threshold_check(case)]


def _fault_check(case: SelftestCase, entry: InjectedFault) -> CheckLine:
    words = outcome_words(entry)
    outcome = Outcome.SKIPPED if not entry.injected else Outcome.PASSED if entry.found else Outcome.FAILED
    message = "" if outcome is Outcome.PASSED else words
    return CheckLine(case.case_id, f"{fault_name(entry)} {entry.direction}", outcome, message, entry.fault.value, words)


def _alarm_check(case: SelftestCase) -> CheckLine:
    answer = _crying_wolf(case)
    broken = case.cries_wolf
    outcome = Outcome.FAILED if broken else Outcome.PASSED if case.rates else Outcome.SKIPPED
    message = "" if outcome is Outcome.PASSED else answer.text
    return CheckLine(case.case_id, "false alarms", outcome, message, "false alarms", answer.text)


def _threshold_check(case: SelftestCase) -> CheckLine:
    answer = _fitting(case)
    fits = case.recommended_threshold is not None
    outcome = Outcome.PASSED if fits else Outcome.SKIPPED
    return CheckLine(case.case_id, "a threshold fits", outcome, "" if fits else answer.text, "threshold", answer.text)
