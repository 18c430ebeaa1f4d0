{{/* Rules and dashboard: the files that are used without Helm as well. */}}

{{/* Writes nothing. */}}
{{- define "ledgergate.checkMonitoring" -}}
{{- if and .Values.metrics.podAnnotations .Values.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podAnnotations and metrics.serviceMonitor are both on: every sample would be scraped twice" -}}
{{- end -}}
{{- end -}}

{{/* The groups of every rule file, without the alerts that are not wanted, and without groups that are empty then. */}}
{{- define "ledgergate.ruleGroups" -}}
{{- $unwanted := .Values.metrics.prometheusRule.disabledAlerts -}}
{{- $known := list -}}
{{- $groups := list -}}
{{- range $path, $_ := .Files.Glob "files/*.yaml" -}}
{{- $file := $.Files.Get $path | fromYaml -}}
{{- if not (kindIs "slice" $file.groups) -}}
{{- fail (printf "%s has no list of groups%s" $path (hasKey $file "Error" | ternary (printf ": %v" $file.Error) "")) -}}
{{- end -}}
{{- range $group := $file.groups -}}
{{- $rules := list -}}
{{- range $group.rules -}}
{{- $name := .alert | default "" -}}
{{- $known = append $known $name -}}
{{- if not (and $name (has $name $unwanted)) -}}{{- $rules = append $rules . -}}{{- end -}}
{{- end -}}
{{- if $rules -}}{{- $groups = append $groups (merge (dict "rules" $rules) $group) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $unwanted -}}
{{- if not (has . $known) -}}{{- fail (printf "metrics.prometheusRule.disabledAlerts: there is no alert %s" .) -}}{{- end -}}
{{- end -}}
{{- $runbook := printf "runbook_url: %s#" (.Values.metrics.prometheusRule.runbookUrl | default (printf "http://%s-operations.%s.svc:%d/runbook" (include "ledgergate.fullname" .) .Release.Namespace (int .Values.operationsService.port))) -}}
{{- with concat $groups .Values.metrics.prometheusRule.extraGroups -}}
{{- toYaml . | replace "runbook_url: docs/runbook.md#" $runbook -}}
{{- end -}}
{{- end -}}
