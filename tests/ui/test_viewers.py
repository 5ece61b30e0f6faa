"""The page for many people: who gets in, who sees what, and what somebody who means harm can do. Raw requests to the
real server; the API server's part is in test_viewers_on_cluster.py."""

import base64
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Any, Final

import pytest

from gpusharing.snapshots.world import World
from gpusharing.ui.exchange import EVENTS, HEADERS, Answer, Request, Site
from gpusharing.ui.heads import LARGEST_HEAD
from gpusharing.ui.picture import SourceError
from gpusharing.ui.viewers import identities, readings, sessions, tokens
from gpusharing.ui.viewers.readings import Visit
from gpusharing.ui.viewers.server import LARGEST_FORM
from gpusharing.ui.viewers.sessions import Sessions
from gpusharing.ui.viewers.visitor import NAMESPACE, SESSION
from harness.eventually import PATIENCE
from planning.fleets import Fleet, policy
from ui.visiting import HOST, MOST, Moment, Open, People, open_to, session_of


def fleet(holder: str) -> Fleet:
    found = Fleet(nodes=1, gpus=2, policies=[policy("all", offers={"exclusive": {}})])
    found.namespaces = {"ml": {}}
    found.hold("gpu-0", namespace="ml", name=holder)
    return found


NAMES: Final = ("alice", "bob", *(f"guest-{number}" for number in range(2 * MOST)))


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    return {name: fleet(f"of-{name}").world() for name in NAMES}


@pytest.fixture
def site(worlds: dict[str, World]) -> Iterator[Open]:
    with open_to(People(dict(worlds))) as found:
        yield found


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------------------- who gets in


@pytest.mark.parametrize("path", ["/", "/gpu/node-0/gpu-0", "/history", "/nothing", "/sign-out", "/?q=of-alice"])
def test_nobody_sees_anything_without_a_token(site: Open, path: str) -> None:
    status, headers, text = site.ask(path)
    assert (status, headers["Location"], text) == (303, "/sign-in", "")
    assert HEADERS.items() <= dict(headers).items()
    assert site.people.asked == 0
    assert site.ask("/events")[0] == 401
    status, headers, text = site.ask("/gpu/node-0/gpu-0", HX_Request="true")
    assert (status, headers["HX-Redirect"], text) == (401, "/sign-in", "")


def test_who_signs_in_sees_its_own_until_it_signs_out(site: Open) -> None:
    alice = site.sign_in("alice")
    status, headers, text = site.ask("/", Cookie=alice)
    assert (status, "of-alice" in text, "Sign out" in text) == (200, True, True)
    assert headers["Cache-Control"] == "no-store"
    status, headers, _ = site.ask("/sign-out", form={}, Cookie=alice)
    assert (status, headers["Location"]) == (303, "/sign-in")
    assert all("Max-Age=0" in one for one in headers.get_all("Set-Cookie"))
    # Somebody has copied the cookie before.
    assert site.ask("/", Cookie=alice)[0] == 303
    assert site.ask("/gpu/node-0/gpu-0", Cookie=alice)[0] == 303
    until(lambda: site.people.is_open == [])


def test_the_cookie_is_for_this_host_and_for_no_script(site: Open) -> None:
    _, headers, text = site.ask("/sign-in", form={"token": "alice"})
    [session, _] = headers.get_all("Set-Cookie")
    assert session.startswith("__Host-")
    assert session.split("; ")[1:] == [
        "Path=/", f"Max-Age={sessions.LONGEST}", "Secure", "HttpOnly", "SameSite=Strict"
    ]  # fmt: skip
    assert "alice" not in session + text


WRONG: Final = ("mallory", "", " ", "alice\r\nX: y", "alice bob", "älice", "x" * 20_000, "alice,bob")


@pytest.mark.parametrize("token", WRONG)
def test_a_wrong_token_is_refused_and_not_shown(site: Open, token: str) -> None:
    status, headers, text = site.ask("/sign-in", form={"token": token})
    assert (status, headers.get_all("Set-Cookie")) == (401, None)
    assert "does not take this token" in text
    assert not token.strip() or token not in text
    # What no API server would take as a token, it would treat as if there were none: it is not asked at all.
    assert site.people.asked == (1 if token == WRONG[0] else 0)


def test_of_a_proxy_the_token_counts(site: Open) -> None:
    status, _, text = site.ask("/", Authorization="Bearer bob")
    assert (status, "of-bob" in text, "Sign out" in text) == (200, True, False)
    status, headers, text = site.ask("/", Authorization="Bearer mallory")
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    # Whatever the browser has from before.
    alice = site.sign_in("alice")
    assert "of-bob" in site.ask("/", Authorization="Bearer bob", Cookie=alice)[2]
    assert site.ask("/", Authorization="Bearer mallory", Cookie=alice)[0] == 401
    assert site.ask("/", Authorization="Bearer ", Cookie=alice)[0] == 401
    # The password for the proxy is no token.
    assert "of-alice" in site.ask("/", Authorization="Basic Ym9iOmJvYg==", Cookie=alice)[2]


@pytest.mark.parametrize(
    "header", ["X-Forwarded-User", "X-Remote-User", "Impersonate-User", "X-Forwarded-Access-Token", "Remote-User"]
)
def test_no_other_header_says_who_somebody_is(site: Open, header: str) -> None:
    headers: dict[str, Any] = {header: "alice"}
    assert site.ask("/", **headers)[0] == 303
    assert "of-bob" in site.ask("/", Authorization="Bearer bob", **headers)[2]


# ------------------------------------------------------------------------------------------------------ time and rights


def test_tokens_are_asked_about_again(site: Open) -> None:
    alice = site.sign_in("alice")
    for _ in range(3):
        assert site.ask("/", Cookie=alice)[0] == 200
    assert site.people.asked == 1
    site.clock.now += identities.ASKED_EVERY
    world = site.people.worlds.pop("alice")
    assert site.ask("/", Cookie=alice)[0] == 303
    site.people.worlds["alice"] = world
    assert site.ask("/", Cookie=alice)[0] == 303, "the session is over"


def test_a_token_that_expires_is_not_believed_a_moment_longer(site: Open) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": site.clock.now + 30}).encode()).decode().rstrip("=")
    token = f"e30.{claims}.c2ln"
    site.people.worlds[token] = site.people.worlds["alice"]
    assert site.ask("/", Authorization=f"Bearer {token}")[0] == 200
    site.clock.now += 29
    assert site.ask("/", Authorization=f"Bearer {token}")[0] == 200
    site.clock.now += 1
    assert site.ask("/", Authorization=f"Bearer {token}")[0] == 401
    assert site.people.asked == 1


@pytest.mark.parametrize(
    "claims", ["{", "[]", '{"exp": "soon"}', '{"exp": 1e999}', "[" * 9000, '{"exp": null}', "\xff"]
)
def test_tokens_that_say_nothing_of_their_end(claims: str) -> None:
    end = tokens.expiry(f"e30.{base64.urlsafe_b64encode(claims.encode()).decode()}.c2ln")
    assert end in {None, float("inf")}


def test_while_the_api_server_is_away_the_page_stays_for_a_while(site: Open) -> None:
    alice = site.sign_in("alice")
    site.ask("/", Cookie=alice)
    site.people.is_away = True
    site.clock.now += identities.ASKED_EVERY
    assert site.ask("/", Cookie=alice)[0] == 200
    assert site.ask("/sign-in", form={"token": "bob"})[0] == 502
    site.clock.now += 600
    assert site.ask("/", Cookie=alice)[0] == 502


def test_signing_out_needs_nobody(site: Open) -> None:
    alice = site.sign_in("alice")
    site.ask("/", Cookie=alice)
    site.people.is_away = True
    site.clock.now += 3000
    assert site.ask("/sign-out", form={}, Cookie=alice)[0] == 303
    until(lambda: site.people.is_open == [])
    site.people.is_away = False
    assert site.ask("/", Cookie=alice)[0] == 303


def test_sessions_end(site: Open) -> None:
    alice = site.sign_in("alice")
    for _ in range(sessions.LONGEST // 3000):
        assert site.ask("/", Cookie=alice)[0] == 200
        site.clock.now += 3000
    site.clock.now += 3000
    assert site.ask("/", Cookie=alice)[0] == 303
    bob = site.sign_in("bob")
    site.clock.now += sessions.IDLE
    assert site.ask("/", Cookie=bob)[0] == 303


@pytest.mark.parametrize("why", ["signed out", "token withdrawn", "session over"])
def test_a_page_that_is_open_ends_too(site: Open, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusharing.ui.updates._PATIENCE", 0.1)
    alice = site.sign_in("alice")
    with closing(site.connection()) as connection:
        connection.request("GET", "/events", headers={"Host": HOST, "Cookie": alice})
        stream = connection.getresponse()
        assert (stream.status, stream.readline()[:3]) == (200, b"id:")
        if why == "signed out":
            site.ask("/sign-out", form={}, Cookie=alice)
        elif why == "token withdrawn":
            del site.people.worlds["alice"]
            site.clock.now += identities.ASKED_EVERY
        else:
            site.clock.now += sessions.LONGEST
        stream.read()


def test_sessions_are_bounded_and_their_numbers_are_nobodys_choice() -> None:
    clock = Moment()
    found = Sessions(clock=clock)
    numbers = [found.begin("token", f"name-{number}") for number in range(sessions.MOST + 1)]
    assert [number for number in numbers if found.token(number) is None] == numbers[:1]
    assert len({len(number) for number in numbers}) == 1
    assert len(set(numbers)) == len(numbers)
    browsers = []
    for _ in range(9):
        clock.now += 1
        browsers.append(found.begin("token", "one"))
    assert [found.token(number) is None for number in browsers] == [True, *[False] * 8]


# ------------------------------------------------------------------------------------------------------ who sees what


def test_two_viewers_at_a_time_see_their_own(site: Open) -> None:
    """Often, from several threads, with and without cookies: no answer is ever another's."""
    cookies = {"alice": site.sign_in("alice"), "bob": site.sign_in("bob")}
    wrong: list[str] = []

    def look(name: str, other: str) -> None:
        for number in range(15):
            path = ("/", "/gpu/node-0/gpu-0", "/?q=of")[number % 3]
            how: dict[str, Any] = {"Cookie": cookies[name]} if number % 2 else {"Authorization": f"Bearer {name}"}
            _, _, text = site.ask(path, **how)
            if f"of-{name}" not in text or f"of-{other}" in text:
                wrong.append(f"{name} {path}: {text}")

    pairs = [("alice", "bob"), ("bob", "alice")] * 2
    threads = [threading.Thread(target=look, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_of_the_same_name_reads_for_itself(site: Open) -> None:
    """Two tokens of one user may have different rights: one of them may be restricted."""
    site.people.names |= {"alice": "same", "bob": "same"}
    assert "of-alice" in site.ask("/", Authorization="Bearer alice")[2]
    text = site.ask("/", Authorization="Bearer bob")[2]
    assert "of-bob" in text
    assert "of-alice" not in text


def test_the_namespace_is_chosen(site: Open) -> None:
    site.people.names["alice"] = "system:serviceaccount:search:reader"
    alice = site.sign_in("alice")
    assert 'value="search"' in site.ask("/", Cookie=alice)[2]
    status, headers, _ = site.ask("/namespace", form={"namespace": "ml"}, Cookie=alice)
    assert (status, headers["Location"]) == (303, "/")
    [chosen] = headers.get_all("Set-Cookie")
    assert 'value="ml"' in site.ask("/", Cookie=f"{SESSION}={session_of(alice)}; {chosen.partition(';')[0]}")[2]
    assert 'value="ml"' in site.ask("/", Authorization="Bearer alice", Cookie=f"{NAMESPACE}=ml")[2]
    for wrong in ("../x", "Ä", "ml/pods", "m" * 64, "ml?watch=1", "ml&", "-"):
        text = site.ask("/", Authorization="Bearer alice", Cookie=f"{NAMESPACE}={wrong}".encode().decode("latin-1"))[2]
        assert 'value="search"' in text, wrong
        _, headers, _ = site.ask("/namespace", form={"namespace": wrong}, Authorization="Bearer alice")
        assert headers.get_all("Set-Cookie")[0].startswith(f"{NAMESPACE}=; "), wrong


class Slow(People):
    """It takes a while to read a cluster, and does not always work."""

    fails = False

    @contextmanager
    def open(self, visit: Visit) -> Iterator[Site]:
        time.sleep(0.2)
        if self.fails:
            raise SourceError("the cluster cannot be read")
        with super().open(visit) as site:
            yield site


def test_several_requests_at_a_time_read_the_cluster_once(worlds: dict[str, World]) -> None:
    people = Slow(dict(worlds))
    with open_to(people) as site:
        for fails, wanted in ((True, {502}), (False, {200})):
            people.fails = fails
            found: list[int] = []
            ask = partial(site.ask, "/", Authorization="Bearer alice")
            threads = [threading.Thread(target=lambda: found.append(ask()[0])) for _ in range(4)]  # noqa: B023
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(found) == wanted
        assert [visit.token for visit in people.is_open] == ["alice"]


# ------------------------------------------------------------------------------------------------------------ attacks


@pytest.mark.parametrize(
    "origin", [None, "null", "https://evil.example", f"http://{HOST}", f"https://{HOST}.evil.example"]
)
@pytest.mark.parametrize("path", ["/plan", "/sign-in", "/sign-out", "/namespace"])
def test_forms_of_other_sites_are_refused(site: Open, path: str, origin: str | None) -> None:
    """Also that for signing in: nobody is to look, without knowing, at what another sees."""
    alice = site.sign_in("alice")
    headers: dict[str, Any] = {"Origin": origin} if origin else {}
    status, answer, text = site.ask(path, body=b"token=bob&namespace=x&policy=x", Cookie=alice, **headers)
    assert (status, answer.get_all("Set-Cookie"), "not sent by the page" in text) == (403, None, True)
    assert site.ask("/", Cookie=alice)[0] == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (HOST, f"https://{HOST}", 422),
        (f"{HOST.upper()}:8443", f"https://{HOST.upper()}:8443", 422),
        ("localhost:8080", "http://localhost:8080", 422),
        ("127.0.0.1:8443", "https://127.0.0.1:8443", 422),
        ("[::1]:8080", "http://[::1]:8080", 422),
        # Another program on this machine.
        ("localhost:8080", "http://localhost:3000", 403),
        (HOST, f"https://{HOST}:8443", 403),
        ("evil.example", "https://evil.example", 421),
        (f"{HOST}.evil.example", f"https://{HOST}.evil.example", 421),
        (f"{HOST}:99999999", f"https://{HOST}:99999999", 421),
        (f"evil.example@{HOST}", f"https://evil.example@{HOST}", 421),
        ("", "https://", 421),
    ],
)
def test_hosts(site: Open, host: str, origin: str, status: int) -> None:
    body = b"policy=a%3A%20%5B"
    assert site.ask("/plan", body=body, Host=host, Origin=origin, Authorization="Bearer alice")[0] == status


def test_a_session_that_somebody_has_planted_is_not_used(site: Open) -> None:
    """Session fixation: before Alice signs in, her browser has a number that Mallory knows."""
    planted = "x" * 43
    cookies = site.sign_in("alice", Cookie=f"{SESSION}={planted}")
    assert session_of(cookies) != planted
    assert site.ask("/", Cookie=f"{SESSION}={planted}")[0] == 303
    # Mallory's own session, which works, becomes nobody's.
    site.people.worlds["mallory"] = site.people.worlds["bob"]
    mallory = site.sign_in("mallory")
    site.sign_in("alice", Cookie=mallory)
    assert site.ask("/", Cookie=mallory)[0] == 303
    # Two cookies of one name: one of them is from elsewhere.
    assert site.ask("/", Cookie=f"{cookies}; {SESSION}={planted}")[0] == 303


def test_guesses_cost_the_api_server_nothing(site: Open) -> None:
    alice = session_of(site.sign_in("alice"))
    asked = site.people.asked
    for guess in (alice[:-1], alice + "A", alice[:-1] + ("A" if alice[-1] != "A" else "B"), alice.swapcase(), "", "x"):
        assert site.ask("/", Cookie=f"{SESSION}={guess}")[0] == 303
    assert site.people.asked == asked


def raw(site: Open, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", site.server.server_port), timeout=PATIENCE) as connection:
        found = b""
        # It may have answered before all was sent.
        with suppress(OSError):
            connection.sendall(text)
        with suppress(OSError):
            while piece := connection.recv(65536):
                found += piece
        return found


GET: Final = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n".encode()
POST: Final = f"POST /sign-in HTTP/1.1\r\nHost: {HOST}\r\nOrigin: https://{HOST}\r\n".encode()


REQUESTS: Final = {
    "two tokens": (GET + b"Authorization: Bearer alice\r\nAuthorization: Bearer bob\r\n\r\n", 400),
    "two tokens, spelled differently": (
        GET + b"Authorization: Bearer alice\r\nauthorization: Bearer mallory\r\n\r\n",
        400,
    ),
    "two hosts": (GET + b"Host: localhost\r\n\r\n", 400),
    "two cookies": (GET + b"Cookie: a=b\r\nCookie: c=d\r\n\r\n", 400),
    "a folded line": (GET + b"X: y\r\n Authorization: Bearer alice\r\n\r\n", 400),
    "a line that ends elsewhere": (GET + b"X: y\rAuthorization: Bearer alice\r\n\r\n", 400),
    "a zero": (GET + b"X: y\0\r\nAuthorization: Bearer alice\r\n\r\n", 400),
    "a vertical tab": (GET + b"X: y\x0bAuthorization: Bearer alice\r\n\r\n", 400),
    "no header": (GET + b"no header at all\r\nAuthorization: Bearer alice\r\n\r\n", 400),
    "a space before the colon": (GET + b"Authorization : Bearer alice\r\n\r\n", 400),
    "chunks": (GET + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and a length": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\ntoken", 400),
    "a long form": (POST + b"Content-Length: 99999999\r\n\r\n", 413),
    "a length with a sign": (POST + b"Content-Length: +5\r\n\r\ntoken", 411),
    "a long URL": (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    "a long cookie": (GET + b"Cookie: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    "long headers": (GET + (b"X: " + b"x" * 4000 + b"\r\n") * (LARGEST_HEAD // 4000 + 1) + b"\r\n", 431),
    "many headers": (GET + b"X: y\r\n" * 200 + b"\r\n", 431),
    "another host in the URL": (GET.replace(b"GET /", b"GET http://evil.example/") + b"\r\n", 303),
    "a path like a host": (b"GET //evil.example/ HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n\r\n", 303),
}


@pytest.mark.parametrize(("head", "status"), REQUESTS.values(), ids=REQUESTS)
def test_requests_that_no_browser_sends(site: Open, head: bytes, status: int) -> None:
    """What proxies and servers read differently is refused, so that nobody slips a header past a proxy."""
    found = raw(site, head)
    assert int(found[:12].split()[1]) == status, found
    assert b"of-alice" not in found
    assert status != 303 or b"Location: /sign-in\r\n" in found


def test_a_second_request_on_the_connection_is_not_read(site: Open) -> None:
    """So nothing is left over that could be taken for somebody else's."""
    found = raw(site, (GET + b"\r\n") + GET + b"Authorization: Bearer alice\r\n\r\n")
    assert found.count(b"HTTP/1.1") == 1
    assert b"of-alice" not in found


def test_large_forms_are_for_those_who_are_known(site: Open) -> None:
    body = b"policy=" + b"x" * 100_000
    origin = f"https://{HOST}"
    assert site.ask("/sign-in", body=body, Origin=origin)[0] == 413
    assert site.ask("/plan", body=body, Origin=origin, Authorization="Bearer mallory")[0] == 413
    alice = site.sign_in("alice")
    assert site.ask("/plan", body=body, Origin=origin, Cookie=alice)[0] == 422
    assert site.ask("/plan", body=b"policy=" + b"x" * LARGEST_FORM, Origin=origin, Cookie=alice)[0] == 413


def test_viewers_are_bounded(site: Open) -> None:
    for number in range(MOST):
        assert site.ask("/", Authorization=f"Bearer guest-{number}")[0] == 200
    status, _, text = site.ask("/", Authorization="Bearer alice")
    assert (status, f"{MOST} people look at this page" in text) == (503, True)
    site.clock.now += 60
    for number in range(1, MOST):
        assert site.ask("/", Authorization=f"Bearer guest-{number}")[0] == 200
    assert site.ask("/", Authorization="Bearer alice")[0] == 200, "the first guest has left"
    until(lambda: len(site.people.is_open) == MOST)
    assert "guest-0" not in {visit.token for visit in site.people.is_open}


def test_one_person_does_not_take_the_place_of_others(site: Open) -> None:
    """With as many tokens as it likes, and all namespaces."""
    for number in range(2 * MOST):
        site.people.names[f"guest-{number}"] = "mallory"
        cookie = f"{NAMESPACE}=team-{number}"
        assert site.ask("/", Authorization=f"Bearer guest-{number}", Cookie=cookie)[0] == 200
    until(lambda: len(site.people.is_open) == readings.MOST_OF_ONE)
    assert site.ask("/", Authorization="Bearer alice")[0] == 200


def test_who_does_not_look_any_more_costs_nothing(site: Open) -> None:
    site.ask("/", Authorization="Bearer alice")
    site.clock.now += 599
    site.ask("/", Authorization="Bearer bob")
    site.clock.now += 1
    until(lambda: [visit.token for visit in site.people.is_open] == ["bob"])


def test_open_pages_of_one_viewer_are_bounded(site: Open) -> None:
    with ExitStack() as stack:
        for _ in range(readings.STREAMS):
            connection = stack.enter_context(closing(site.connection()))
            connection.request("GET", "/events", headers={"Host": HOST, "Authorization": "Bearer alice"})
            assert connection.getresponse().status == 200
        assert site.ask("/events", Authorization="Bearer alice")[0] == 503
        assert site.ask("/", Authorization="Bearer alice")[0] == 200
        with closing(site.connection()) as connection:
            connection.request("GET", "/events", headers={"Host": HOST, "Authorization": "Bearer bob"})
            assert connection.getresponse().status == 200


class Flood:
    """A page that changes all the time."""

    def answer(self, request: Request) -> Answer:  # noqa: ARG002 (it is the same for all)
        return Answer(body=itertools.repeat(b": " + b"x" * 65536 + b"\n\n"), content_type=EVENTS)


class Flooded(People):
    @contextmanager
    def open(self, visit: Visit) -> Iterator[Site]:  # noqa: ARG002 (it is the same for all)
        yield Flood()


def test_who_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that takes no byte keeps neither a thread nor a place."""
    monkeypatch.setattr("gpusharing.ui.server._Handler.timeout", 0.5)
    with open_to(Flooded({"alice": fleet("nobody").world()})) as site:
        most = site.server.connections._value
        with socket.create_connection(("127.0.0.1", site.server.server_port)) as connection:
            connection.sendall(GET.replace(b"GET /", b"GET /events") + b"Authorization: Bearer alice\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
            until(lambda: site.server.connections._value == most)


def test_who_sends_nothing_makes_room(site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusharing.ui.server._LONGEST_SILENCE", 0.2)
    most = site.server.connections._value
    with ExitStack() as stack:
        for _ in range(most):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", site.server.server_port)))
            silent.sendall(b"GET / HTTP/1.1\r\nHost: ")

        def is_answered() -> bool:
            with suppress(OSError):
                return site.ask("/", Authorization="Bearer alice")[0] == 200
            return False

        until(is_answered)


def test_probes_need_no_name_and_tell_nothing(site: Open) -> None:
    for path in ("/healthz", "/readyz"):
        status, _, text = site.ask(path, Host="10.0.0.7:8080")
        assert (status, text) == (200, "ok\n")
    assert site.ask("/", Host="10.0.0.7:8080")[0] == 421


def test_styles_are_for_everybody(site: Open) -> None:
    assert site.ask("/static/ui.css")[0] == 200
    assert site.ask("/static/vendored.toml")[0] == 404
    assert site.ask("/static/..%2fserver.py")[0] == 404
