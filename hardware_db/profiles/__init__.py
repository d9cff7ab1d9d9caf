"""Latency profile of a system: its own constants, those of its family, or typical ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from genz_core.common.memo import ByIdentity
from genz_core.latency.device import Device
from genz_core.latency.profile import LatencyProfile, Tier
from genz_core.systems import System
from hardware_db import system_files, yaml_document
from hardware_db.data_folder import data_folder
from hardware_db.own_files import OwnFiles, read_all, read_text
from hardware_db.profile_schema import (
    FittedProfile,
    combine,
    fitted_profile,
    head,
    layered,
    plain_data,
    read,
)
from hardware_db.profiles.siblings import Sibling, in_order
from hardware_db.profiles.trees import MeasuredTrees
from hardware_db.profiles.typical import as_inherited, for_device, on_cpu
from hardware_db.tables import table

FOLDER = Path(__file__).parent
NARROW, WIDE, RESIDUALS = "default_narrow", "default_wide", "residuals"

__all__ = [
    "load_profile", "measured_profiles", "own_folder", "own_profiles", "residual_quantiles",
    "typical_profile",
]  # fmt: skip


def load_profile(system: System, fitted: FittedProfile | None = None) -> LatencyProfile:
    """The latency profile of a system, complete: every class and format has constants.

    A measured system uses its own fits, and a system with the device of a measured one
    (`System.device_of`) uses that one's, with its own fits of collectives; a sibling (same family)
    uses the typical constants of its family with its own datasheet, in the order of the measured
    boards (`siblings.in_order`); a system of an unmeasured family uses those of related families
    (`kin.csv`), and any other system typical constants by the width of its memory. Classes and
    formats that a measured profile lacks come from its family, then from the typical constants;
    each entry of `fits` states its tier; inherited constants count as typical.

    fitted: a profile of this system that takes precedence over those of its slug.
    """
    own_by_name = sorted(own_profiles().announced().records.items())
    shipped = measured_profiles(lambda one: (
        system.slug in one.systems or one.family == system.family))  # fmt: skip
    profiles = (*(profile for _, profile in own_by_name), *shipped)
    own = [profile for profile in profiles if system.slug in profile.systems]
    own = own if fitted is None else [fitted]
    links: list[FittedProfile] = []
    if system.device_of:  # kernels are the device's, collectives its own links'
        links = [fits for one in own if (fits := _only(one, "collective")).fits]
        device = [profile for profile in profiles if system.device_of in profile.systems]
        users = [profile for profile in own if profile not in shipped]
        own = [*users, *device, *(profile for profile in own if profile in shipped)]
    family = [
        profile for profile in profiles if profile.family == system.family and profile not in own
    ]
    relatives = [_of_family(system.family, family)] if family else []
    typical = typical_profile(system)
    inherited = [] if own or relatives else _inherited(system.family)
    layers = [*links, *own, *relatives, *inherited]
    # Over PCIe collectives depend on the host, so constants from one host do not apply to another.
    if system.links and "pcie" in system.links[0].name.casefold():
        layers = [_without(profile, "collective") for profile in layers]
    profile = layered(system.slug, [*layers, typical])
    if relatives and any(fit.tier == "sibling" for fit in profile.fits.values()):
        profile = in_order(profile, system, _siblings(one for one in family if one in shipped))
    profile = as_inherited(profile)
    weakest = _weakest(profile)
    note = (
        _origin(system, own, family, weakest)
        if own or relatives
        else _inheritance(system, inherited)
    )
    profile = replace(profile, note=note)
    if not own or all(own[0] is not other for other in shipped):
        return profile
    return replace(profile, tier=weakest, residual=MeasuredTrees(own[0].name))


def typical_profile(system: System) -> FittedProfile:
    """The typical constants of a device of this memory width, as if no device of its family was
    measured.
    """
    typical = for_device(_default(NARROW), _default(WIDE), Device.of(system))
    return on_cpu(typical) if system.kind == "cpu" else typical


#: Classes that take most of a step's time; they determine the tier of a profile.
_MAIN = (("gemm", "bf16"), ("prefill_attention", "bf16/bf16"), ("decode_attention", "bf16/bf16"))
_TIERS: tuple[Tier, ...] = ("measured", "sibling", "default")


def _weakest(profile: LatencyProfile) -> Tier:
    """The lowest tier among the main classes, since a device may be measured in part."""
    return max((profile.fit(*key).tier for key in _MAIN), key=_TIERS.index)


def _origin(
    system: System, own: Sequence[FittedProfile], family: Sequence[FittedProfile], weakest: Tier
) -> str:
    """A phrase on the origin of the constants of a device that was measured, or whose family was:
    which classes are from there, unless all main ones are.
    """
    names = ", ".join(profile.name for profile in family)
    here = own and system.slug in own[0].systems
    device = "this device" if here else f"the same device in {system.device_of}"
    source = f"measurements of {device} ({own[0].name})" if own else f"its family: {names}"
    if weakest != "default":
        return f"fitted on {source}"
    classes = sorted({operator for one in own or family for operator, _ in one.parameters})
    others = f"its family ({names}) and typical constants" if own and names else "typical constants"
    return f"{', '.join(classes)} fitted on {source}; others from {others}"


def _siblings(family: Iterable[FittedProfile]) -> list[Sibling]:
    """The measured boards of a family, without those that have another one's device."""
    found = ((system_files.find(slug).system(), one) for one in family for slug in one.systems)
    return [Sibling(board, profile) for board, profile in found if not board.device_of]


_FAMILIES: ByIdentity[FittedProfile] = ByIdentity(32)


def _of_family(name: str, members: Sequence[FittedProfile]) -> FittedProfile:
    """The typical profile of measured members of a family."""
    return _FAMILIES.get(lambda: combine(members, f"{name} family", "sibling"), *members)


def _inherited(family: str) -> list[FittedProfile]:
    """The constants of measured families related to an unmeasured one; None where there is none."""
    near = next((row["nearest"].split() for row in table("profiles", "kin")
                 if row["family"] == family), [])  # fmt: skip
    members = measured_profiles(lambda one: one.family in near)
    if not members:
        return []
    return [_KIN.get(lambda: combine(members, " and ".join(near), "default"), *members)]


_KIN: ByIdentity[FittedProfile] = ByIdentity(16)


def _inheritance(system: System, inherited: Sequence[FittedProfile]) -> str:
    """A sentence on the origin of the constants of a family that was not measured."""
    typical = "typical constants of all measured families, by memory bandwidth per unit and clock"
    if system.kind == "cpu":
        typical += ", attention as measured on one core of an EPYC"
    if not inherited:
        return f"no device of family {system.family} was measured; inherited from {typical}"
    classes = ", ".join(sorted({operator for operator, _ in inherited[0].parameters}))
    return (
        f"no device of family {system.family} was measured; {classes} inherited from "
        f"{inherited[0].name}, others from {typical}"
    )


def _without(profile: FittedProfile, operator: str) -> FittedProfile:
    """The profile without the constants of a class."""
    return _with_classes(profile, lambda one: one != operator)


def _only(profile: FittedProfile, operator: str) -> FittedProfile:
    """The profile with the constants of one class."""
    return _with_classes(profile, lambda one: one == operator)


def _with_classes(profile: FittedProfile, wanted: Callable[[str], bool]) -> FittedProfile:
    """The profile with the constants of the wanted classes."""

    def keep(entries: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
        return {key: value for key, value in entries.items() if wanted(key[0])}

    return replace(profile, parameters=keep(profile.parameters), fits=keep(profile.fits))


def own_folder() -> Path:
    """Folder of the user's own profiles, which take precedence over shipped ones; it need not
    exist.
    """
    return data_folder() / "profiles"


def own_profiles() -> OwnFiles[FittedProfile]:
    """The user's own profiles, without damaged ones."""
    return read_all("profiles/*.yaml", _own, "calibrate again, or move it away")


@lru_cache(maxsize=64)
def _own(path: Path, _modified: int) -> FittedProfile:
    """The profile in a user's file, cached by the time of its last change."""
    document = yaml_document.parse(read_text(path), "it")
    return fitted_profile(document, "it", "measured")


def measured_profiles(
    wanted: Callable[[FittedProfile], bool] = lambda _: True,
) -> tuple[FittedProfile, ...]:
    """The profiles of measured devices, in the order of their names.

    wanted: decides by a profile without its constants; only wanted profiles are read completely.
    """
    return tuple(_measured(path) for path, named in _heads() if wanted(named))


@lru_cache(maxsize=1)
def _heads() -> tuple[tuple[Path, FittedProfile], ...]:
    """File of each shipped profile of a measured device, and the profile without its constants."""
    apart = {NARROW, WIDE, RESIDUALS}
    files = (path for path in sorted(FOLDER.glob("*.yaml")) if path.stem not in apart)
    return tuple((path, head(path)) for path in files)


@lru_cache(maxsize=64)
def _measured(path: Path) -> FittedProfile:
    """The profile of a measured device."""
    return read(path, "measured")


@lru_cache(maxsize=2)
def _default(name: str) -> FittedProfile:
    """Typical constants at one end of the scale, `NARROW` or `WIDE`."""
    return read(FOLDER / f"{name}.yaml", "default")


@lru_cache(maxsize=1)
def residual_quantiles() -> Mapping[str, Mapping[Tier, Mapping[float, float]]]:
    """{class: {tier: {level: quantile of ln(measured / predicted)}}} on held-out points.

    Every series has the same weight.  "measured": held-out shapes of measured devices; "sibling"
    and "default": whole devices and whole families that were held out.
    """
    data = plain_data(FOLDER / f"{RESIDUALS}.yaml")
    return {
        operator: {
            tier: {float(level): float(value) for level, value in entry["quantiles"].items()}
            for tier, entry in tiers.items()
        }
        for operator, tiers in data["classes"].items()
    }
