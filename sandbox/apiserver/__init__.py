"""A fake Kubernetes API server: what kube-apiserver does around admission, in memory and on loopback.

    async with ApiServer() as api:
        ...  # create webhook configurations, then pods, over HTTP at api.url; read api.calls

Faithful: the order of defaulting, mutating webhooks, naming, validation, validating webhooks and storage;
AdmissionReview v1; failure policies, reinvocation and warnings; resourceVersions, conflicts, pages, watches
and their 410; Status objects.

Deliberately not emulated:

- controllers: a Deployment makes no pods, a CRD is not established, nothing is garbage collected (only a
  namespace takes its content with it when it is deleted), no service account is made or looked for
- the scheduler and the kubelet: a pod stays Pending until a test writes its status
- authorisation: every user may do everything and impersonate anybody
- schemas, of built-in kinds as of CRDs: only what `shapes` and `validation` name is checked; OpenAPI is what
  kubectl 1.29 and later ask before they apply (`openapi`), and fieldValidation finds nothing
- owners of fields that were not written by server-side apply (`applying`); protobuf and YAML bodies (415)
- conversion: each resource has one version, and Events of the core group and of events.k8s.io are kept apart
- matchConditions (a configuration with them is refused), admission policies, webhooks that have side
  effects (v1 refuses them), webhooks for kinds that are answered and not stored (TokenReview)
- evictions, bindings, logs, exec, resize
"""

from sandbox.apiserver.admission import Call
from sandbox.apiserver.app import ApiServer
from sandbox.apiserver.asks import ADMIN
from sandbox.apiserver.reviews import User

__all__ = ["ADMIN", "ApiServer", "Call", "User"]
