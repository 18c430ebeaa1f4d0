{{/* How long a pod takes to end, in seconds. The gateway's own times are compared with its sources by a test. */}}

{{/* 2 s in which it takes new connections, 10 s for what is in flight; workers are waited for 7 s longer. */}}
{{- define "ledgergate.drainSeconds" -}}
{{- eq (toString (dig "workers" 1 .Values.config)) "1" | ternary 12 19 -}}
{{- end -}}

{{/* 3 s more than that are for what cannot be known: how fast the process is scheduled and gone. */}}
{{- define "ledgergate.terminationGracePeriodSeconds" -}}
{{- $preStop := .Values.shutdown.preStopSeconds | int -}}
{{- $needed := add $preStop (include "ledgergate.drainSeconds" . | int) -}}
{{- $given := .Values.shutdown.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $needed 3 -}}
{{- else if lt (int $given) (int $needed) -}}
{{- fail (printf "shutdown.terminationGracePeriodSeconds is %d: the pod would be killed while it answers. preStop takes %d s and the gateway's drain up to %s s: at least %d" (int $given) $preStop (include "ledgergate.drainSeconds" .) $needed) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{- define "ledgergate.preStop" -}}
{{- $seconds := .Values.shutdown.preStopSeconds | int -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}
sleep:
  seconds: {{ $seconds }}
{{- else -}}
# There is no `sleep` in the image.
exec:
  command: [/nodejs/bin/node, -e, 'setTimeout(() => {}, {{ mul $seconds 1000 }})']
{{- end -}}
{{- end -}}
