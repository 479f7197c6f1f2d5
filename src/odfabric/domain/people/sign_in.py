"""Whom an OpenID Connect provider lets in.

Owns the rule of domains. Not here: verifying the provider's word (`ports.people.identity_provider`), finding or making the account.
"""

from __future__ import annotations

from collections.abc import Collection

from odfabric.errors import AccessDenied
from odfabric.model.people.sign_in import VerifiedIdentity


def check_domain(identity: VerifiedIdentity, allowed_domains: Collection[str]) -> None:
    """Whether somebody with this address may come in; no domains allow everybody.

    Raises AccessDenied.

    The address must be verified and its domain be one of them, not a domain below one.
    """
    if not allowed_domains:
        return
    shown = ", ".join(sorted(allowed_domains))
    if identity.email is None or not identity.email_verified:
        raise AccessDenied(
            "the provider does not say that your e-mail address is verified",
            hint=f"verify an address of {shown} there, then sign in again",
        )
    local, _, domain = identity.email.lower().rpartition("@")
    if not local or domain not in {allowed.lower() for allowed in allowed_domains}:
        raise AccessDenied(f"addresses of {domain} may not sign in here", hint=f"use an account with one of {shown}")
