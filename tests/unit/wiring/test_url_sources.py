"""Which URLs a node fetches, by its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.errors import InvalidRequest
from odfabric.settings import Settings
from odfabric.wiring.sources.polling import folder_savepoints, permitted_sources, polling_ports
from tests.support.servers.ftp import ftp_site


def test_ftp_is_fetched_where_the_operator_permits_it(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path, fetch_ftp=True)
    assert {"ftp", "ftps"} <= permitted_sources(settings).schemes
    with ftp_site() as site, Egress(allow=["127.0.0.0/8"]) as egress:
        site.put("/a", b"rows")
        ports = polling_ports(settings, egress, folder_savepoints(settings))
        into = tmp_path / "a"
        url = site.url("/a").replace("ftp:", "FTP:")
        assert ports.http.fetch(url, headers=[], etag=None, last_modified=None, into=into).size == 4


@pytest.mark.parametrize("url", ["ftp://host/a", "ftps://host/a", "gopher://host/a"])
def test_other_urls_are_refused_by_default(url: str, tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path)
    assert permitted_sources(settings).schemes == {"http", "https", "file"}
    with Egress() as egress, pytest.raises(InvalidRequest) as caught:
        polling_ports(settings, egress, folder_savepoints(settings)).http.fetch(
            url, headers=[], etag=None, last_modified=None, into=tmp_path / "a"
        )
    assert caught.value.place.field == "url"
