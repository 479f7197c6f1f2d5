"""Token requests: the datasets of a new token, and a token that somebody found."""

from __future__ import annotations

from odfabric.errors import CredentialRefused, InvalidRequest, NotFound, Place, TokenUnknown
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.identity import DatasetId
from odfabric.model.people.account import Account
from odfabric.model.people.credential import AccessToken
from odfabric.usecases.people.tokens import inspect_token
from odfabric.wiring import Node
from odfabric_api.auth import Subject


def inspected(text: str, caller: Subject, node: Node) -> tuple[AccessToken, Account]:
    """A token that is no credential of this request.

    401 would say that the caller's own does not count.

    Raises InvalidRequest for what is no token, NotFound for one that the caller may not know of.
    """
    try:
        return inspect_token(text, subject=caller, ports=node.people)
    except TokenUnknown:
        hint = "it is another node's, or of an account that you do not manage"
        raise NotFound("token", "of this text", hint=hint) from None
    except CredentialRefused as error:
        raise InvalidRequest(error.message, place=Place(field="token"), hint=error.hint) from None


def dataset_of(text: str, caller: Subject, node: Node) -> DatasetId:
    """The dataset of a name or an id that the caller may read.

    Raises NotFound, InvalidName.
    """
    return node.seen_by(caller).resolve(parse_dataset_ref(text)).id
