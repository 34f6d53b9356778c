"""The model: all rules applied to one situation; the worst effect on each failure is the guarantee. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.durability.guarantee import Guarantee, Guarantees
from flushlab.settings.durability.replication import replication
from flushlab.settings.durability.rule import Effect, Kept, Rule, Situation
from flushlab.settings.durability.rules import RULES


def guarantees(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Guarantees:
    """What a server keeps under each failure.

    Args:
        settings: of the server; a durability setting that is left out counts as this version's default.
        identity: flavor and version.
        storage: of the data directory.
        launch: arguments, LD_PRELOAD, redo log switched off.

    Raises:
        ValueOutOfRange: a durability setting has a value that this version does not allow.
    """
    situation = Situation(settings, identity, storage, launch)
    found = [(rule, effect) for rule in RULES if rule.holds(identity) for effect in rule.find(situation)]
    os_crash = _worst("os_crash", found)
    return Guarantees(
        process_crash=_worst("process_crash", found),
        os_crash=os_crash,
        power_loss=_worst("power_loss", found),
        torn_page=_worst("torn_page", found),
        node_loss=_worst("node_loss", found),
        cluster_loss=_worst("cluster_loss", found),
        binlog=_worst("binlog", found),
        replication=replication(situation, os_crash),
    )


def _worst(on: Kept, found: Sequence[tuple[Rule, Effect]]) -> Guarantee:
    """The worst effect; its text comes first, those of the other losses after it, remarks last."""
    remarks = [(rule, effect) for rule, effect in found if effect.on == on and effect.remark]
    here = [
        (rule, effect, _guarantee(effect)) for rule, effect in found if effect.on == on and not effect.remark
    ]
    losses = [one for one in here if one[1].level != "nothing_lost"]
    whole = [one for one in losses if one[1].whole]
    told = sorted(whole or losses or here, key=lambda one: one[2].badness, reverse=True)
    worst = told[0][2] if told else Guarantee(level="nothing_lost", text="nothing is lost")
    texts = [effect.text for _, effect, _ in told] or [worst.text]
    rules = [*(rule for rule, _, _ in told), *(rule for rule, _ in remarks)]
    return Guarantee(
        level=worst.level,
        window_s=worst.window_s,
        text="; ".join(dict.fromkeys((*texts, *(effect.text for _, effect in remarks)))),
        because=tuple(dict.fromkeys(f"{rule.name}: {rule.source}" for rule in rules)),
    )


def _guarantee(effect: Effect) -> Guarantee:
    return Guarantee(level=effect.level, text=effect.text, window_s=effect.window_s)
