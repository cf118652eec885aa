"""Several processes behind one address: the files of deploy/, and the set-up as it really runs."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.cluster import ADDRESSES, HAPROXY, SETTINGS, Cluster, Reader, missing

Come = Callable[[int], list[Reader]]
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
APP = {"app.kubernetes.io/name": "attention-live"}


def manifest(kind: str) -> dict[str, Any]:
    """The one object of that kind."""
    found = [
        read for path in MANIFESTS for read in yaml.safe_load_all(path.read_text()) if read["kind"] == kind
    ]
    assert len(found) == 1
    return dict(found[0])


def dockerfile(instruction: str) -> str:
    found = re.search(rf"^{instruction} (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    return found[1]


# ---------------------------------------------------------------- the files


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_holds_to_the_published_schema(path: Path) -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    ).validate
    for read in yaml.safe_load_all(path.read_text()):
        validate(read, "1.37", strict=True)


def test_the_validation_finds_a_misspelt_field() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    wrong = manifest("Deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.37", strict=True)


def test_the_pod_is_not_root_writes_nothing_and_may_do_nothing_more() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == dockerfile(
        "USER"
    )
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_everything_means_the_same_pods_and_the_same_port() -> None:
    deployment = manifest("Deployment")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert str(port["containerPort"]) == dockerfile("EXPOSE")
    assert deployment["template"]["metadata"]["annotations"]["prometheus.io/port"] == dockerfile("EXPOSE")
    assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"] == APP
    assert manifest("Service")["spec"]["selector"] == APP
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == APP
    assert manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == APP
    (rule,) = manifest("Ingress")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service = manifest("Service")
    assert path["backend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }
    assert manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "app"


def test_nothing_in_the_cluster_goes_out() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    assert "Egress" in policy["policyTypes"] and policy["egress"] == []


def test_a_probe_waits_longer_than_the_longest_run() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    for name in ("readinessProbe", "livenessProbe"):
        assert container[name]["timeoutSeconds"] >= 10
    alive = container["livenessProbe"]
    assert alive["failureThreshold"] * alive["periodSeconds"] >= 60


def test_the_compose_file_holds_to_the_specification() -> None:
    spec = pytest.importorskip("compose_spec", reason="compose-spec is not installed")
    text = (DEPLOY / "compose.yaml").read_text()
    filled_in = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)  # as the engine does, with nothing set
    spec.PyCompose.from_yaml(filled_in).validate()


@pytest.mark.parametrize("service", ["app", "proxy"])
def test_a_container_writes_nothing_and_may_do_nothing_more(service: str) -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][service]
    assert found["read_only"] and found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found["mem_limit"] and found["pids_limit"]


def test_the_app_is_on_a_network_without_a_way_out() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert compose["services"]["app"]["networks"] == ["inside"] and "ports" not in compose["services"]["app"]
    assert compose["networks"]["inside"]["internal"] is True


def test_the_proxy_looks_for_the_port_that_the_image_opens() -> None:
    assert f"presetenv APP app:{dockerfile('EXPOSE')} " in SETTINGS.read_text()


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed: on Debian, apt-get install haproxy")
def test_haproxy_finds_no_fault_in_its_settings() -> None:
    assert HAPROXY
    said = subprocess.run([HAPROXY, "-c", "-f", SETTINGS], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "WARNING" not in said.stderr


# ---------------------------------------------------------------- the set-up, really run


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(why)
    running = Cluster()
    yield running
    running.close()


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """All replicas up, and nobody there."""
    running.names.addresses = list(ADDRESSES)
    running.wait_for(lambda: running.up() == set(ADDRESSES), "a replica is missing")
    running.wait_for(lambda: not any(running.sessions().values()), "a reader was left from the test before")
    return running


@pytest.fixture
def readers(cluster: Cluster) -> Iterator[Callable[[int], list[Reader]]]:
    """A function that brings so many readers, each with a number of his own in the first cell of Q."""
    here: list[Reader] = []

    def come(count: int) -> list[Reader]:
        new = [Reader(cluster) for _ in range(count)]
        here.extend(new)
        for number, reader in enumerate(new):
            reader.open()
            reader.edit(0, 0, f"{number}.25")
        return new

    yield come
    for reader in here:
        reader.close()


@pytest.mark.server
def test_readers_are_spread_out_and_each_stays_where_he_is(cluster: Cluster, readers: Come) -> None:
    found = readers(9)
    assert cluster.sessions() == dict.fromkeys(ADDRESSES, 3)
    for reader in found:
        cookie = reader.cookie
        assert cookie
        for _ in range(5):  # each with a connection of its own
            answer, _ = reader.get("/_stcore/host-config")
            assert answer.status == 200 and "replica=" not in str(answer.headers.get("set-cookie"))
        reader.close()
        reader.open()
        assert reader.cookie == cookie
    assert cluster.sessions() == dict.fromkeys(ADDRESSES, 3)
    assert len({reader.cookie for reader in found}) == 3


@pytest.mark.server
def test_the_readers_of_a_replica_that_is_killed_have_their_numbers_on_another(
    cluster: Cluster, readers: Come
) -> None:
    found = readers(6)
    before = [reader.shown() for reader in found]
    cluster.end(ADDRESSES[0], signal.SIGKILL)
    for reader in found:
        reader.edit(1, 1, "0.5")
    assert sorted(len(reader.away) for reader in found) == [0, 0, 0, 0, 1, 1]
    for was, reader in zip(before, found, strict=True):
        was[1][1] = "0.5"
        assert [[float(n.replace("−", "-")) for n in row] for row in reader.shown()] == [
            [float(n.replace("−", "-")) for n in row] for row in was
        ]
    assert sum(cluster.sessions().values()) == 6
    assert max(seconds for reader in found for seconds in reader.away) < 10

    # back again, it takes new readers, and those who moved stay where they are
    cluster.start(ADDRESSES[0])
    cluster.wait_until_ready(ADDRESSES[0])
    cluster.wait_for(lambda: cluster.up() == set(ADDRESSES), "the replica was not taken back", 30)
    moved = [reader for reader in found if reader.away]
    cookies = [reader.cookie for reader in moved]
    for reader in moved:
        assert reader.get("/_stcore/host-config")[0].status == 200
    assert [reader.cookie for reader in moved] == cookies
    readers(1)
    assert cluster.sessions()[ADDRESSES[0]] == 1


@pytest.mark.server
def test_a_rolling_restart_loses_no_number_and_refuses_no_page(cluster: Cluster, readers: Come) -> None:
    found = readers(6)
    over, failed, asked = threading.Event(), [], [0]
    last = [0] * len(found)

    def type_on(number: int, reader: Reader) -> None:
        while not over.is_set():
            last[number] += 1
            try:
                reader.edit(1, 0, str(last[number]))
            except Exception as error:
                failed.append(repr(error))
                return
            time.sleep(0.1)

    def visit() -> None:
        while not over.is_set():
            asked[0] += 1
            answer, _ = Reader(cluster).get("/walkthrough")
            if answer.status != 200:
                failed.append(f"a page was answered with {answer.status}")
            time.sleep(0.02)

    work = [threading.Thread(target=type_on, args=pair) for pair in enumerate(found)]
    work.append(threading.Thread(target=visit))
    for thread in work:
        thread.start()
    for address in ADDRESSES:
        cluster.end(address)
        cluster.start(address)
        cluster.wait_until_ready(address)
        cluster.wait_for(lambda: cluster.up() == set(ADDRESSES), "the replica was not taken back", 30)
    over.set()
    for thread in work:
        thread.join()
    assert failed == []
    assert asked[0] > 100
    assert all(reader.away for reader in found)  # everybody was on one of them
    for number, reader in enumerate(found):
        assert float(reader.shown()[0][0]) == number + 0.25
        assert float(reader.shown()[1][0]) == last[number]


@pytest.mark.server
def test_new_replicas_take_new_readers_and_nobody_is_moved(cluster: Cluster, readers: Come) -> None:
    cluster.names.addresses = list(ADDRESSES[:2])
    cluster.wait_for(lambda: cluster.up() == set(ADDRESSES[:2]), "the proxy did not follow the name", 30)
    found = readers(4)
    assert cluster.sessions() == {ADDRESSES[0]: 2, ADDRESSES[1]: 2, ADDRESSES[2]: 0}
    cluster.names.addresses = list(ADDRESSES)
    cluster.wait_for(lambda: cluster.up() == set(ADDRESSES), "the proxy did not follow the name", 30)
    found += readers(2)
    assert cluster.sessions() == dict.fromkeys(ADDRESSES, 2)
    assert not any(reader.away for reader in found)


@pytest.mark.server
def test_the_proxy_refuses_what_is_not_for_readers_and_sends_assets_small_and_for_long(
    cluster: Cluster,
) -> None:
    reader = Reader(cluster)
    statuses = {path: reader.get(path)[0].status for path in ("/metrics", "/_stcore/metrics", "/ready", "/")}
    assert statuses == {"/metrics": 404, "/_stcore/metrics": 404, "/ready": 404, "/": 200}
    for origin, status in (("https://elsewhere.example", 403), ("http://localhost:1", 403), ("null", 403)):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://{cluster.host}/_stcore/stream", origin=origin)  # type: ignore[arg-type]
        assert refused.value.response.status_code == status
    upload = HTTPConnection("localhost", cluster.port, timeout=10)
    upload.request("PUT", "/_stcore/upload_file/x/y", headers={"Content-Length": "4000000"})
    assert upload.getresponse().status == 413

    page = reader.get("/")[1].decode()
    assert "frame-ancestors 'self'" in str(reader.get("/")[0].headers["content-security-policy"])
    asset = re.findall(r"static/js/index\.[\w-]+\.js", page)[0]
    answer, packed = reader.get(f"/{asset}", **{"Accept-Encoding": "gzip"})
    plain = reader.get(f"/{asset}")[1]
    assert answer.headers["content-encoding"] == "gzip" and gzip.decompress(packed) == plain
    assert len(packed) < 0.5 * len(plain)
    assert (
        "immutable" in answer.headers["cache-control"]
        and "max-age=31536000" in answer.headers["cache-control"]
    )
    assert reader.get(f"/{asset}")[0].headers["age"] is not None  # from the proxy's own store
    assert reader.get("/")[0].headers["cache-control"].startswith("no-cache")


@pytest.mark.server
def test_the_proxys_log_has_no_address_and_no_link(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.get("/metrics?secret=1")
    reader.get("/_stcore/no-such-thing?secret=2")
    cluster.wait_for(lambda: b"404" in (cluster.folder / "proxy.log").read_bytes(), "nothing was logged", 10)
    lines = (cluster.folder / "proxy.log").read_text().splitlines()
    told = [line for line in lines if '"event":"proxy"' in line]
    assert told
    assert not [line for line in told if "secret" in line or "127.0.0.1" in line]
