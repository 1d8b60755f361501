"""What an administrator sets about the process. What changes a verdict is in the GpuPolicy instead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from policy.problems import Problem
from serve.settings import Address, ExistingFile

FailMode = Literal["allow", "deny", "audit"]
CertificateDirectory = Annotated[Path, Meta(extra={"there": "directory", "made_by": "gpufence certs init"})]
PolicyPath = Annotated[Path, Meta(extra={"there": "file", "made_by": "gpufence policy show >"})]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of `gpufence webhook run`.

    A start on one machine; `config.yaml` has every setting but `kubeconfig`:

    ```sh
    gpufence certs init certs
    gpufence policy show > policy.yaml
    echo '{apiVersion: v1, kind: Namespace, metadata: {name: vision, labels: {team: vision}}}' > namespaces.yaml
    cat > config.yaml <<'END'
    listen: 127.0.0.1:8443
    certificates: certs
    policyFile: policy.yaml
    namespacesFile: namespaces.yaml
    failMode: allow
    maxBodyBytes: 10485760
    maxConnections: 512
    requestTimeoutSeconds: 2.5
    shutdownTimeoutSeconds: 10
    stopDelaySeconds: 5
    workers: 1
    metricsListen: 127.0.0.1:9108
    logLevel: info
    logFormat: json
    END
    gpufence webhook run --config config.yaml
    ```

    Once it says that it is ready, in a second shell:

    ```sh
    curl --cacert certs/ca.crt https://127.0.0.1:8443/healthz
    ```
    """

    listen: Address = Address("0.0.0.0", 8443)  # noqa: S104 - the API server calls from outside of the pod
    """Address and port of the HTTPS server. All interfaces, because the API server reaches a pod by its pod
    address; 8443, because ports below 1024 need a privilege. Port 0 takes a free one, which the ready line
    names."""

    certificates: CertificateDirectory = Path("/etc/gpufence/certs")
    """Directory with `tls.crt`, `tls.key` and, where it can be had, `ca.crt`: a mounted Secret, or what
    `gpufence certs init` wrote."""

    policy_file: PolicyPath | None = None
    """File with the GpuPolicy. The process does not start with a policy that has problems; a reload (SIGHUP)
    with one keeps the last good policy. Without this setting the GpuPolicy named `default` of the cluster is
    watched, and all namespaces with it; where the cluster has none, the built-in policy is in force."""

    namespaces_file: ExistingFile | None = None
    """File with Namespace objects (documents or a List), which supply the labels that namespace selectors of
    the policy match. Goes together with `policyFile`. Without it, or for a namespace that is not in it, the
    labels are unknown and no label selector matches."""

    kubeconfig: ExistingFile | None = None
    """File that says how to reach the API server, to watch it from outside of the cluster: its current context
    is used. Without it, the service account of the pod. Does not go together with `policyFile`."""

    fail_mode: FailMode = "allow"
    """Answer where no decision can be made, because the pod is malformed, gpufence itself failed, or the
    watches have not told of policy and namespaces yet: `allow` lets the pod in with a warning, `deny` refuses
    it, `audit` lets it in and the warning says that it would be refused. The default is `allow`: a fault of
    ours must not stop a cluster, and the node agent still sees what the pod does."""

    max_body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10 * 1024 * 1024
    """Largest request body in bytes; a larger one is answered with 413. 10 MiB holds two copies of the
    largest object that etcd stores (1.5 MiB) with room for escapes. Bodies above 64 KiB share room for four of
    this size; where it is taken, 429, and the `failurePolicy` of the webhook configuration decides."""

    max_connections: Annotated[int, Meta(ge=16, le=100_000)] = 512
    """Most connections at a time. One more takes the place of another: of the caller that has most of them, the one
    that has said nothing for longest. An API server needs as many as it has calls at a time; 512 leaves room in
    the 1024 open files that many systems give a process."""

    request_timeout_seconds: Annotated[float, Meta(gt=0, le=30)] = 2.5
    """Longest time in seconds to wait for the body of a request; then it is answered with 408. Below the 3
    seconds that the webhook configuration gives a call, so that the caller is told why; 30 is the most that
    Kubernetes allows. A TLS handshake, the head of a request and a client that does not read its answer get as long;
    then the connection is closed."""

    shutdown_timeout_seconds: Annotated[float, Meta(ge=0, le=300)] = 10.0
    """Longest time in seconds that SIGTERM waits for requests in flight. Below the 30 seconds that a pod is
    given before SIGKILL."""

    stop_delay_seconds: Annotated[float, Meta(ge=0, le=120)] = 5.0
    """How long in seconds requests are still taken after SIGTERM, while `/readyz` says no: API servers and
    kube-proxy hear of a removed endpoint with some delay. Together with `shutdownTimeoutSeconds` below the
    grace period of the pod."""

    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Processes that answer, on one port. One answers about a thousand pods a second; more are for clusters that
    create more, and each needs a core and about 70 MiB. A parent restarts one that dies."""

    metrics_listen: Address | None = None
    """Address and port of `GET /metrics` for Prometheus, over plain HTTP. Nothing in it is about a single pod or
    tenant. Without this setting there is no such port."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe message that is logged. `info` has denials and faults, `debug` every decision."""

    log_format: Literal["json", "console"] = "json"
    """`json` is one object per line, for collectors; `console` is for people."""


def conflicts(settings: WebhookSettings) -> list[Problem]:
    """Return what does not go together."""
    found = []
    if settings.namespaces_file is not None and settings.policy_file is None:
        fix = (
            "Set policyFile too, or leave namespacesFile out: then the namespaces of the cluster are watched."
        )
        found.append(Problem("namespacesFile", "does nothing without policyFile", fix=fix))
    if settings.kubeconfig is not None and settings.policy_file is not None:
        fix = "Leave one of the two out."
        found.append(
            Problem("kubeconfig", "does nothing with policyFile, which is used instead of a cluster", fix=fix)
        )
    if (
        settings.metrics_listen is not None
        and settings.metrics_listen == settings.listen
        and settings.listen.port
    ):
        fix = "Give it another port."
        found.append(Problem("metricsListen", "is the same address as listen", str(settings.listen), fix))
    return found
