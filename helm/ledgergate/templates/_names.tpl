{{/* Names, and the labels that tell who belongs to whom. */}}

{{- define "ledgergate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 50 characters: "-operations" and the hash of a pod still fit into the 63 of a name. */}}
{{- define "ledgergate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "ledgergate.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $full | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ledgergate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ledgergate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What never changes: a Deployment's selector cannot. The component keeps the pod of `helm test` out of Services. */}}
{{- define "ledgergate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ledgergate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/* Labels of an object. Ours last: nobody may change what selectors rely on. */}}
{{- define "ledgergate.labels" -}}
{{- $ours := include "ledgergate.selectorLabels" . | fromYaml -}}
{{- $more := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
-}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) $more $ours | toYaml -}}
{{- end -}}

{{/* Metadata of an object. `root`, `name`; `component`, `labels` and `annotations` where it has its own. */}}
{{- define "ledgergate.metadata" -}}
{{- $root := .root -}}
{{- $labels := mergeOverwrite (deepCopy (.labels | default dict)) (include "ledgergate.labels" $root | fromYaml) -}}
{{- if .component }}{{- $_ := set $labels "app.kubernetes.io/component" .component -}}{{- end -}}
name: {{ .name }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with mergeOverwrite (deepCopy $root.Values.commonAnnotations) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ledgergate.image" -}}
{{- with .Values.image -}}
{{- $registry := $.Values.global.imageRegistry | default .registry -}}
{{- $name := $registry | empty | ternary .repository (printf "%s/%s" $registry .repository) -}}
{{- if .digest -}}
{{- printf "%s@%s" $name .digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}
