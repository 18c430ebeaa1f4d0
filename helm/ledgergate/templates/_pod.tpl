{{/* The gateway's pod. */}}

{{/* Without the chart's version: another one alone is no reason to replace pods. */}}
{{- define "ledgergate.podLabels" -}}
{{- $ours := omit (include "ledgergate.labels" . | fromYaml) "helm.sh/chart" "app.kubernetes.io/managed-by" -}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) .Values.podLabels $ours | toYaml -}}
{{- end -}}

{{- define "ledgergate.podAnnotations" -}}
{{- $ours := dict -}}
{{- if eq .Values.configChange "always" -}}
{{- $_ := set $ours "checksum/config" (include "ledgergate.config" . | sha256sum) -}}
{{- else if eq .Values.configChange "whenNeeded" -}}
{{- $_ := set $ours "checksum/config" (include "ledgergate.restartConfig" . | sha256sum) -}}
{{- end -}}
{{- if .Values.metrics.podAnnotations -}}
{{- $_ := set $ours "prometheus.io/scrape" "true" -}}
{{- $_ := set $ours "prometheus.io/port" (include "ledgergate.operationsPort" .) -}}
{{- $_ := set $ours "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- with mergeOverwrite (deepCopy .Values.commonAnnotations) .Values.podAnnotations $ours -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "ledgergate.podSpec" -}}
serviceAccountName: {{ include "ledgergate.serviceAccountName" . }}
automountServiceAccountToken: false
# Variables that describe Services: the gateway needs none, and LEDGERGATE_PORT of a Service looks like one of its own.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
terminationGracePeriodSeconds: {{ include "ledgergate.terminationGracePeriodSeconds" . }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" "nodeSelector" "tolerations" "affinity" "dnsConfig" "hostAliases" "initContainers" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $selector := dict "matchLabels" (include "ledgergate.selectorLabels" $ | fromYaml) }}
  {{- /* Pods of the revision that is going do not count, or a rollout would end up lopsided. */}}
  {{- $own := dict "labelSelector" $selector "matchLabelKeys" (list "pod-template-hash") }}
  - {{- merge (deepCopy .) $own | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
containers:
  - {{- include "ledgergate.container" . | nindent 4 }}
  {{- with .Values.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  {{- include "ledgergate.volumes" . | nindent 2 }}
{{- end -}}

{{- define "ledgergate.container" -}}
name: gateway
image: {{ include "ledgergate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/ledgergate/config/ledgergate.yaml]
securityContext:
  {{- toYaml .Values.containerSecurityContext | nindent 2 }}
ports:
  - name: client
    containerPort: {{ include "ledgergate.clientPort" . }}
  - name: operations
    containerPort: {{ include "ledgergate.operationsPort" . }}
{{- with include "ledgergate.env" . | trim }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
startupProbe:
  {{- include "ledgergate.probe" (dict "path" "/livez" "times" .Values.probes.startup) | nindent 2 }}
livenessProbe:
  {{- include "ledgergate.probe" (dict "path" "/livez" "times" .Values.probes.liveness) | nindent 2 }}
readinessProbe:
  {{- include "ledgergate.probe" (dict "path" "/readyz" "times" .Values.probes.readiness) | nindent 2 }}
{{- if gt (int .Values.shutdown.preStopSeconds) 0 }}
lifecycle:
  preStop:
    {{- include "ledgergate.preStop" . | nindent 4 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "ledgergate.volumeMounts" . | nindent 2 }}
{{- end -}}

{{- define "ledgergate.probe" -}}
httpGet:
  path: {{ .path }}
  port: operations
{{ toYaml .times }}
{{- end -}}

{{- define "ledgergate.env" -}}
{{- with include "ledgergate.nodeOptions" . }}
- name: NODE_OPTIONS
  value: {{ . | quote }}
{{- end }}
{{- range .Values.secrets.env }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* One name, one value. Writes nothing. */}}
{{- define "ledgergate.checkEnvironment" -}}
{{- $seen := dict -}}
{{- range include "ledgergate.env" . | fromYamlArray -}}
{{- if hasKey $seen .name -}}
{{- $hint := eq .name "NODE_OPTIONS" | ternary ": the chart sets it, put yours into nodeOptions" "" -}}
{{- fail (printf "the variable %s is set twice%s" .name $hint) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}

{{/*
Secrets as folders below /etc/ledgergate, since files of a mounted Secret follow it and variables do not: `name` of the
volume, `folder`, `secret`, and its `items`; without items, every key is a file.
*/}}
{{- define "ledgergate.secretFolders" -}}
{{- $secrets := .Values.secrets -}}
{{- $tls := $secrets.tls -}}
{{- $named := list
  (dict "name" "operations" "of" $secrets.operationsToken "items" (list (dict "key" $secrets.operationsToken.key "path" "token")))
  (dict "name" "redis" "of" $secrets.redis "items" (list (dict "key" $secrets.redis.key "path" "url")))
  (dict "name" "access-redis" "of" $secrets.accessRedis "items" (list (dict "key" $secrets.accessRedis.key "path" "url")))
  (dict "name" "keys" "of" $secrets.accessKeys "items" (list (dict "key" $secrets.accessKeys.key "path" $secrets.accessKeys.key)))
  (dict "name" "tls" "of" $tls "items" (list (dict "key" $tls.certKey "path" "tls.crt") (dict "key" $tls.keyKey "path" "tls.key")))
-}}
{{- $folders := list -}}
{{- range $named -}}
{{- if .of.existingSecret -}}
{{- $folders = append $folders (dict "name" .name "folder" .name "secret" .of.existingSecret "items" .items) -}}
{{- end -}}
{{- end -}}
{{- range $at, $secret := $secrets.files -}}
{{- $folders = append $folders (dict "name" (printf "secret-%d" $at) "folder" (printf "secrets/%s" $secret) "secret" $secret) -}}
{{- end -}}
{{- toYaml $folders -}}
{{- end -}}

{{/* Folders and not single files: Kubernetes never updates what is mounted by subPath, and the gateway reads again. */}}
{{- define "ledgergate.volumeMounts" -}}
- name: config
  mountPath: /etc/ledgergate/config
  readOnly: true
{{- if .Values.store.enabled }}
- name: store
  mountPath: /var/cache/ledgergate
{{- end }}
{{- range include "ledgergate.secretFolders" . | fromYamlArray }}
- name: {{ .name }}
  mountPath: /etc/ledgergate/{{ .folder }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ledgergate.volumes" -}}
- name: config
  configMap:
    name: {{ include "ledgergate.fullname" . }}
{{- with .Values.store }}
{{- if .enabled }}
- name: store
  {{- if .existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .existingClaim }}
  {{- else }}
  emptyDir:
    # The gateway stays below the size; the rest is for small files beside the store.
    sizeLimit: {{ add .sizeMiB 64 }}Mi
  {{- end }}
{{- end }}
{{- end }}
{{- range include "ledgergate.secretFolders" . | fromYamlArray }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    {{- with .items }}
    items:
      {{- range . }}
      - { key: {{ .key }}, path: {{ .path }} }
      {{- end }}
    {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
