{{/* How many pods there are at least, and what depends on it. */}}

{{- define "ledgergate.leastReplicas" -}}
{{- .Values.autoscaling.enabled | ternary .Values.autoscaling.minReplicas .Values.replicaCount | int -}}
{{- end -}}

{{/* Writes nothing. */}}
{{- define "ledgergate.checkReplicas" -}}
{{- $least := include "ledgergate.leastReplicas" . | int -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if lt (int .maxReplicas) (int .minReplicas) -}}
{{- fail (printf "autoscaling.maxReplicas (%d) is less than autoscaling.minReplicas (%d)" (int .maxReplicas) (int .minReplicas)) -}}
{{- end -}}
{{- if and (eq (int .cpuUtilization) 0) (not .misses.enabled) -}}
{{- fail "autoscaling is enabled and has nothing to go by: set autoscaling.cpuUtilization or autoscaling.misses.enabled" -}}
{{- end -}}
{{- if and (gt (int .cpuUtilization) 0) (not (dig "requests" "cpu" "" $.Values.resources)) -}}
{{- fail "autoscaling.cpuUtilization is relative to resources.requests.cpu, which is not set" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.store.enabled (not .Values.store.existingClaim) -}}
{{- $disk := include "ledgergate.quantityMiB" (dig "limits" "ephemeral-storage" 0 .Values.resources) | float64 -}}
{{- $most := add .Values.store.sizeMiB 128 | float64 -}}
{{- if and (gt $disk 0.0) (gt $most $disk) -}}
{{- fail (printf "resources.limits.ephemeral-storage is below store.sizeMiB (%d) and 128 for logs: the pod would be moved once the store is full" (int .Values.store.sizeMiB)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.store.enabled .Values.store.existingClaim -}}
{{- if or .Values.autoscaling.enabled (ne (int .Values.replicaCount) 1) (ne .Values.updateStrategy.type "Recreate") -}}
{{- fail "store.existingClaim is for one pod, and the next one needs the volume: set replicaCount to 1 and updateStrategy.type to Recreate, or leave the claim empty" -}}
{{- end -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (gt $least 1) -}}
{{- $text := toString .minAvailable -}}
{{- if not (kindIs "invalid" .minAvailable) -}}
{{- if or (eq $text "100%") (and (not (hasSuffix "%" $text)) (ge (int .minAvailable) $least)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %s of at least %d pods: none could ever be moved, and no machine drained" $text $least) -}}
{{- end -}}
{{- else if has (toString .maxUnavailable) (list "0" "0%") -}}
{{- fail "podDisruptionBudget.maxUnavailable is 0: no pod could ever be moved, and no machine drained" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
