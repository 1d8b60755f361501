"""What an administrator sets about the process. What changes a verdict is in the GpuPolicy instead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serve.settings import Address, ExistingFile

FailMode = Literal["allow", "deny", "audit"]
CertificateDirectory = Annotated[Path, Meta(extra={"there": "directory", "made_by": "gpufence certs init"})]
PolicyPath = Annotated[Path, Meta(extra={"there": "file", "made_by": "gpufence policy show >"})]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of `gpufence webhook run`.

    A start on one machine; `config.yaml` has every setting:

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
    requestTimeoutSeconds: 2.5
    shutdownTimeoutSeconds: 10
    stopDelaySeconds: 5
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

    policy_file: PolicyPath = Path("/etc/gpufence/policy.yaml")
    """File with the GpuPolicy. The process does not start with a policy that has problems; a reload (SIGHUP)
    with one keeps the last good policy."""

    namespaces_file: ExistingFile | None = None
    """File with Namespace objects (documents or a List), which supply the labels that namespace selectors of
    the policy match. Without it, or for a namespace that is not in it, the labels are unknown and no label
    selector matches."""

    fail_mode: FailMode = "allow"
    """Answer where no decision can be made, because the pod is malformed or gpufence itself failed: `allow`
    lets the pod in with a warning, `deny` refuses it, `audit` lets it in and the warning says that it would
    be refused. The default is `allow`: a fault of ours must not stop a cluster, and the node agent still sees
    what the pod does."""

    max_body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10 * 1024 * 1024
    """Largest request body in bytes; a larger one is answered with 413. 10 MiB holds two copies of the
    largest object that etcd stores (1.5 MiB) with room for escapes."""

    request_timeout_seconds: Annotated[float, Meta(gt=0, le=30)] = 2.5
    """Longest time in seconds to wait for the body of a request; then it is answered with 408. Below the 3
    seconds that the webhook configuration gives a call, so that the caller is told why; 30 is the most that
    Kubernetes allows."""

    shutdown_timeout_seconds: Annotated[float, Meta(ge=0, le=300)] = 10.0
    """Longest time in seconds that SIGTERM waits for requests in flight. Below the 30 seconds that a pod is
    given before SIGKILL."""

    stop_delay_seconds: Annotated[float, Meta(ge=0, le=120)] = 5.0
    """How long in seconds requests are still taken after SIGTERM, while `/readyz` says no: API servers and
    kube-proxy hear of a removed endpoint with some delay. Together with `shutdownTimeoutSeconds` below the
    grace period of the pod."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe message that is logged. `info` has denials and faults, `debug` every decision."""

    log_format: Literal["json", "console"] = "json"
    """`json` is one object per line, for collectors; `console` is for people."""
