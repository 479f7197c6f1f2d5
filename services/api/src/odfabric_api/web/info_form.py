"""The form of a dataset's info: description, keywords, licence, readme."""

from __future__ import annotations

from odfabric.errors import InvalidRequest, Place
from odfabric.model.metadata import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    SetAttachments,
    SetInfo,
    SetLicense,
)
from odfabric.usecases.datasets.describe_dataset import DatasetDescription, is_readme
from odfabric.usecases.datasets.set_info import InfoEvent, info_version

README_PATH = "README.md"

INFO_FIELDS = frozenset(
    {"seen", "description", "keywords", "readme", "license_short", "license_name", "license_spdx", "license_url"}
)

LICENSES = ("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "ODbL-1.0", "PDDL-1.0", "MIT", "Apache-2.0")
"""Names in the SPDX list that open data mostly has; offered, not required."""


def info_values(about: DatasetDescription) -> dict[str, str]:
    """The fields as the dataset has them."""
    license_ = about.license
    return {
        "seen": info_version(about.state),
        "description": about.description or "",
        "keywords": ", ".join(about.keywords),
        "readme": about.readme or "",
        "license_short": license_.short_name if license_ else "",
        "license_name": license_.name if license_ else "",
        "license_spdx": (license_.spdx_id or "") if license_ else "",
        "license_url": license_.website_url if license_ else "",
    }


def events_of(form: dict[str, str], about: DatasetDescription) -> tuple[InfoEvent, ...]:
    """What the form changes. Raises InvalidRequest at the field that is wrong."""
    before = info_values(about)
    typed = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in INFO_FIELDS}
    events: list[InfoEvent] = []
    if _differs(typed, before, "description", "keywords"):
        # A keyword that holds a comma stays whole as long as the field is not changed.
        is_same = not _differs(typed, before, "keywords")
        keywords = about.keywords if is_same else _keywords(typed["keywords"])
        events.append(SetInfo(description=typed["description"] or None, keywords=keywords or None))
    if _differs(typed, before, "license_short", "license_name", "license_spdx", "license_url"):
        events.append(_license(typed))
    if _differs(typed, before, "readme"):
        events.append(_attachments(typed["readme"], about))
    return tuple(events)


def _differs(typed: dict[str, str], before: dict[str, str], *names: str) -> bool:
    return any(typed[name] != before[name].strip() for name in names)


def _keywords(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def _license(typed: dict[str, str]) -> SetLicense:
    short, url = typed["license_short"], typed["license_url"]
    if not short:
        raise InvalidRequest(
            "a licence cannot be taken back, for others have relied on it",
            place=Place(field="license_short"),
            hint="name the licence from now on",
        )
    if not url.startswith(("https://", "http://")):
        raise InvalidRequest(
            "the licence has no address",
            place=Place(field="license_url"),
            hint="where its text can be read, beginning with https://",
        )
    return SetLicense(
        short_name=short, name=typed["license_name"] or short, spdx_id=typed["license_spdx"] or None, website_url=url
    )


def _attachments(readme: str, about: DatasetDescription) -> SetAttachments:
    """The other documents stay, and so does the readme's place among them."""
    items = list(about.attachments)
    place = next((number for number, each in enumerate(items) if is_readme(each)), len(items))
    path = items[place].path if place < len(items) else README_PATH
    items[place : place + 1] = [AttachmentEmbedded(path=path, content=f"{readme}\n")] if readme else []
    return SetAttachments(attachments=AttachmentsEmbedded(items=tuple(items)))
