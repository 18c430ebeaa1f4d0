{{/* Of the pod of `helm test`: the NetworkPolicy lets it in, no Service sends to it. */}}
{{- define "ledgergate.testLabels" -}}
{{- include "ledgergate.selectorLabels" . | fromYaml | merge (dict "app.kubernetes.io/component" "test") | toYaml -}}
{{- end -}}
