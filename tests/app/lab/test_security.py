"""Who may speak to the lab."""

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from equilibria.app.lab.server import STATIC, Lab

HERE = {"host": "127.0.0.1:8017"}


@pytest.fixture(scope="module")
def client():
    lab = Lab("secret", rooms=[])
    with TestClient(lab.app, base_url="http://127.0.0.1:8017") as client:
        yield client


def refused(client, path, headers):
    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect(path, headers=headers):
        pass
    return closed.value.reason


def test_the_page_needs_no_token_and_allows_no_inline_script(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert page.status_code == 200
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert policy.partition("frame-ancestors ")[2] == "'self' http://127.0.0.1:* http://localhost:*"  # a notebook here
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in page.text
    assert " style=" not in page.text
    assert " on" not in page.text.replace(" on the", "").replace(" on one", "")


@pytest.mark.parametrize("file", sorted(STATIC.rglob("*")), ids=lambda path: path.name)
def test_static_files_are_served_and_name_no_outside_host(client, file):
    if file.is_dir():
        return
    found = client.get(f"/static/{file.relative_to(STATIC).as_posix()}")
    assert found.status_code == 200
    text = found.text.replace("http://www.w3.org/", "")
    assert "http://" not in text
    assert "https://" not in text.replace('"https:"', "")
    assert "innerHTML" not in text


@pytest.mark.parametrize("token", ["", "?token=", "?token=wrong", "?token=secre", "?token=secret2"])
def test_without_the_token_nothing_below_api_answers(client, token):
    assert client.post(f"/api/upload{token}", content=b"").status_code == 403
    assert "token" in refused(client, f"/api/live{token}", HERE)


def test_a_foreign_host_is_refused_everywhere(client):
    for host in ("evil.example", "evil.example:8017", "127.0.0.1.evil.example", "", "[::2"):
        assert client.get("/", headers={"host": host}).status_code == 403
        assert "name" in refused(client, "/api/live?token=secret", {"host": host})


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "http://localhost:8017"])
def test_a_foreign_origin_is_refused_even_with_the_token(client, origin):
    assert "Another page" in refused(client, "/api/live?token=secret", HERE | {"origin": origin})
    found = client.post("/api/upload?token=secret", content=b"", headers=HERE | {"origin": origin})
    assert (found.status_code, "Another page" in found.text) == (403, True)


def test_its_own_page_is_let_in(client):
    own = HERE | {"origin": "http://127.0.0.1:8017"}
    with client.websocket_connect("/api/live?token=secret", headers=own) as socket:
        assert b'"hello"' in socket.receive_bytes()


def test_no_file_outside_the_static_folder_is_served(client):
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/api/", "/static/"):
        assert client.get(path, headers={"x-lab-token": "secret"}).status_code in (404, 403)


def test_an_address_is_a_name_only_for_a_server_that_listens_everywhere():
    from equilibria.app.lab.security import Guard

    here, everywhere = Guard(None, "t"), Guard(None, "t", hosts=["lab.example"], any_address=True)
    assert not here.known("192.0.2.7:80")
    assert everywhere.known("192.0.2.7:80")
    assert everywhere.known("lab.example:80")
    assert not everywhere.known("evil.example")
