"""Every metric of the webhook as a constant. Data only: `webhook.metrics` makes them, docs/metrics.md lists them.

Names follow https://prometheus.io/docs/practices/naming/: base units, `_total` for counters, and the time of
something rather than its age, so that an alert needs no scrape that is on time.

No label has a value that a tenant writes or chooses: namespaces, users, teams and images are in the log and in the
records. What is not known is no series, never a 0.
"""

from __future__ import annotations

from serve.metrics import Alert, Label, Spec
from webhook.sources import COLLECTIONS

ENDPOINTS = ("mutate", "validate")
VERDICTS = ("allow", "deny", "undecided")
CAUSES = ("request", "internal", "cold")
CODES = ("400", "405", "408", "413", "415", "429", "other")
RECORD_OUTCOMES = ("delivered", "dropped", "failed")
DROPPED = ("queue", "rate", "terminating")  # the keys of kube.events.EventWriter.dropped
EVENT_OUTCOMES = ("written", "failed", *(f"dropped_{why}" for why in DROPPED))

# A decision takes 50 microseconds, a request about a millisecond. 2.5 s is the default of requestTimeoutSeconds, 3 s
# the timeout of the API server.
_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 3.0)
_ENDPOINT = Label("endpoint", ENDPOINTS)
_COLLECTION = Label("collection", COLLECTIONS)

DECISIONS = Spec(
    name="gpufence_admission_decisions_total",
    kind="counter",
    help="Decisions about pods and debug containers, without dry runs.",
    labels=(_ENDPOINT, Label("verdict", VERDICTS)),
    notes=(
        "A pod that is created is decided about twice: at `/mutate` and, unless that denied it, at `/validate`. "
        "`undecided` are answers under failMode, also where the request could not be read far enough to say what "
        "it was about."
    ),
    alert=Alert(
        'sum(rate(gpufence_admission_decisions_total{verdict="deny"}[10m]))'
        " > 0.5 * sum(rate(gpufence_admission_decisions_total[10m]))",
        "Most pods are denied: perhaps a new policy says more than was meant.",
    ),
)
DRY_RUNS = Spec(
    name="gpufence_admission_dry_runs_total",
    kind="counter",
    help="Dry runs that were answered, about any object.",
    labels=(_ENDPOINT,),
    notes="They count in no other metric but the duration and, under failMode, `gpufence_admission_undecided_total`.",
)
PATCHED = Spec(
    name="gpufence_admission_patched_total",
    kind="counter",
    help="Pods that were answered with a patch, without dry runs.",
    notes="Nearly every pod is: its team label and the stamp of the decision are patched in.",
)
RULE_HITS = Spec(
    name="gpufence_rule_hits_total",
    kind="counter",
    help="Rules that applied to a pod, by what was done, without dry runs.",
    labels=(
        _ENDPOINT,
        Label("rule", text="the id of a [rule](rules.md)"),
        Label("action", ("fixed", "denied", "warned", "audited"), "those that the rule can have"),
    ),
    notes=(
        "A rule that finds two faults in a pod counts twice. `audited` are also hits that an exemption, an exception "
        "or `enforcement: audit` spared. GF106 is not here: the API server judges it, and the webhook never hears of "
        "it."
    ),
    alert=Alert(
        'sum by (rule) (increase(gpufence_rule_hits_total{endpoint="validate",rule=~"GF10[1-4]",action="denied"}[1h]))'
        " > 0",
        "What `/mutate` fixes was not fixed in the final pod: another webhook undoes it, or `/mutate` is not called.",
    ),
)
DURATION = Spec(
    name="gpufence_admission_duration_seconds",
    kind="histogram",
    help="Time from the head of a request to its answer, the wait for the body included.",
    labels=(_ENDPOINT,),
    buckets=_BUCKETS,
    notes="Of every AdmissionReview that was answered: dry runs, failMode and objects that are no pods too.",
    alert=Alert(
        "histogram_quantile(0.99, sum by (le) (rate(gpufence_admission_duration_seconds_bucket[5m]))) > 0.5",
        "Pods wait for gpufence. From 3 seconds on, failurePolicy decides instead of it.",
    ),
)
UNDECIDED = Spec(
    name="gpufence_admission_undecided_total",
    kind="counter",
    help="Answers under failMode, because no decision could be made.",
    labels=(
        _ENDPOINT,
        Label("fail_mode", ("allow", "deny", "audit"), "the one of the settings"),
        Label("cause", CAUSES),
    ),
    notes=(
        "`request`: what was sent is malformed; `internal`: gpufence failed, which is a bug; `cold`: no policy is in "
        "force yet. About any object, dry runs too."
    ),
    alert=Alert(
        'sum by (fail_mode, cause) (increase(gpufence_admission_undecided_total{cause!="request"}[10m])) > 0',
        "Pods are let in unjudged, or refused without a reason of theirs.",
    ),
)
IN_FLIGHT = Spec(
    name="gpufence_admission_in_flight",
    kind="gauge",
    help="Requests that are being answered now.",
    merge="livesum",
)
REFUSED = Spec(
    name="gpufence_http_refused_total",
    kind="counter",
    help="Requests that were refused before they could be judged, by HTTP status code.",
    labels=(Label("code", CODES),),
    notes="To the API server these are failed calls: failurePolicy decides.",
    alert=Alert(
        'sum(increase(gpufence_http_refused_total{code="429"}[5m])) > 0',
        "More pods are created than the webhook answers: more replicas or workers are needed.",
    ),
)
NOT_AFTER = Spec(
    name="gpufence_certificate_not_after_timestamp_seconds",
    kind="gauge",
    help="When the certificate that is served ends, in Unix time.",
    merge="livemin",
    alert=Alert(
        "gpufence_certificate_not_after_timestamp_seconds - time() < 7 * 86400",
        "Nobody has renewed the certificate; once it has ended, no call succeeds.",
    ),
)
POLICY_INFO = Spec(
    name="gpufence_policy_info",
    kind="gauge",
    help="1 for the version of the policy in force, 0 for former ones.",
    labels=(Label("version", text="the digest that `gpufence policy check` prints"),),
    merge="livemax",
    notes="Administrators change the policy, so the number of series grows with what they do and not with tenants.",
    alert=Alert(
        "count(count by (version) (gpufence_policy_info == 1)) > 1",
        "Replicas or workers decide by different policies for longer than a change takes.",
    ),
)
POLICY_VALID = Spec(
    name="gpufence_policy_valid",
    kind="gauge",
    help="0 while the newest policy was refused and the last good one stays in force.",
    merge="livemin",
    alert=Alert(
        "gpufence_policy_valid == 0", "What was last applied does not hold; the log has every problem."
    ),
)
POLICY_REFUSED = Spec(
    name="gpufence_policy_refused_total",
    kind="counter",
    help="Policies that were read and refused, once for each worker.",
)
WATCH_FAILURES = Spec(
    name="gpufence_watch_failures_total",
    kind="counter",
    help="Lists and watches of the API server that failed.",
    labels=(_COLLECTION,),
)
LAST_CONTACT = Spec(
    name="gpufence_watch_last_contact_timestamp_seconds",
    kind="gauge",
    help="When the collection was last known to be current, in Unix time.",
    labels=(_COLLECTION,),
    merge="livemin",
    notes="There is no such series before the first contact, nor where policy and namespaces come from files.",
    alert=Alert(
        "time() - gpufence_watch_last_contact_timestamp_seconds > 300",
        "Decisions rest on old policies or namespaces. A quiet watch is renewed every minute.",
    ),
)
SYNCED = Spec(
    name="gpufence_watch_synced",
    kind="gauge",
    help="1 once the collection was listed completely, else 0.",
    labels=(_COLLECTION,),
    merge="livemin",
    alert=Alert(
        "gpufence_watch_synced == 0", "Without policy and namespaces every pod is answered under failMode."
    ),
)
RECORDS = Spec(
    name="gpufence_records_total",
    kind="counter",
    help="Records of decisions, by what became of them.",
    labels=(Label("outcome", RECORD_OUTCOMES),),
    notes="`dropped`: the queue was full; `failed`: taken and given up.",
    alert=Alert(
        'sum by (outcome) (increase(gpufence_records_total{outcome!="delivered"}[10m])) > 0',
        "The record of decisions has gaps.",
    ),
)
EVENTS = Spec(
    name="gpufence_events_total",
    kind="counter",
    help="Kubernetes Events about decisions, by what became of them.",
    labels=(Label("outcome", EVENT_OUTCOMES),),
    notes=(
        "`dropped_rate`: a namespace has as many as it may; `dropped_queue`: too many wait; `dropped_terminating`: the "
        "namespace is being deleted."
    ),
    alert=Alert(
        'increase(gpufence_events_total{outcome="failed"}[1h]) > 10',
        "Users do not see why their pods were refused; mostly a missing right to create Events.",
    ),
)

METRICS: tuple[Spec, ...] = (
    DECISIONS,
    DRY_RUNS,
    PATCHED,
    RULE_HITS,
    DURATION,
    UNDECIDED,
    IN_FLIGHT,
    REFUSED,
    NOT_AFTER,
    POLICY_INFO,
    POLICY_VALID,
    POLICY_REFUSED,
    LAST_CONTACT,
    SYNCED,
    WATCH_FAILURES,
    RECORDS,
    EVENTS,
)
