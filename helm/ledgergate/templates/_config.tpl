{{/*
The gateway's config: `values.config` word for word, and what stands for the secrets. What the chart needs to know of it
is read here, and what cannot work in a cluster is refused.
*/}}

{{- define "ledgergate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $secrets := .Values.secrets -}}
{{- $operations := $config.operations | default dict -}}
{{/* SERVICE.NAMESPACE may look like a public name. All other names of the Service pass by themselves. */}}
{{- $service := printf "%s-operations.%s" (include "ledgergate.fullname" .) .Release.Namespace -}}
{{- $_ := set $operations "hosts" (concat (list $service) ($operations.hosts | default list)) -}}
{{- if $secrets.operationsToken.existingSecret -}}
{{- $_ := set $operations "token" "${file:/etc/ledgergate/operations/token}" -}}
{{- end -}}
{{- $_ := set $config "operations" $operations -}}
{{- if $secrets.redis.existingSecret -}}
{{- $cache := $config.cache | default dict -}}
{{- $redis := merge (dict "url" "${file:/etc/ledgergate/redis/url}") ($cache.redis | default dict) -}}
{{- $_ := set $config "cache" (merge (dict "redis" $redis) $cache) -}}
{{- end -}}
{{- if $secrets.accessRedis.existingSecret -}}
{{- $access := $config.access | default dict -}}
{{- $redis := merge (dict "url" "${file:/etc/ledgergate/access-redis/url}") ($access.redis | default dict) -}}
{{- $_ := set $config "access" (merge (dict "redis" $redis) $access) -}}
{{- end -}}
{{- if .Values.store.enabled -}}
{{- $cache := $config.cache | default dict -}}
{{- if $cache.store -}}
{{- fail "config.cache.store is set, and store.enabled as well: the chart sizes the volume by store.sizeMiB" -}}
{{- end -}}
{{- $ours := dict "path" "/var/cache/ledgergate/store" "maxBytes" (printf "%dMiB" (int .Values.store.sizeMiB)) -}}
{{- $_ := set $config "cache" (merge (dict "store" $ours) $cache) -}}
{{- end -}}
{{- if $secrets.accessKeys.existingSecret -}}
{{- $access := $config.access | default dict -}}
{{- $keys := merge (dict "file" (printf "/etc/ledgergate/keys/%s" $secrets.accessKeys.key)) ($access.keys | default dict) -}}
{{- $_ := set $config "access" (merge (dict "keys" $keys) $access) -}}
{{- end -}}
{{- if $secrets.tls.existingSecret -}}
{{- $files := dict "cert" "/etc/ledgergate/tls/tls.crt" "key" "/etc/ledgergate/tls/tls.key" -}}
{{- $_ := set $config "listen" (merge (dict "tls" $files) ($config.listen | default dict)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
What of the config takes a restart: all but the keys that the gateway takes over while it runs (live-keys.yaml is made
from its sources). A section stays where its keys go: that there is one at all may take a restart.
*/}}
{{- define "ledgergate.restartConfig" -}}
{{- $config := include "ledgergate.config" . | fromYaml -}}
{{- range .Files.Get "live-keys.yaml" | fromYamlArray -}}
{{- include "ledgergate.without" (dict "in" $config "path" (splitList "." .)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Takes the key at `path` out of `in`. Writes nothing. */}}
{{- define "ledgergate.without" -}}
{{- $name := first .path -}}
{{- if eq (len .path) 1 -}}
{{- $_ := unset .in $name -}}
{{- else if kindIs "map" (get .in $name) -}}
{{- include "ledgergate.without" (dict "in" (get .in $name) "path" (rest .path)) -}}
{{- end -}}
{{- end -}}

{{- define "ledgergate.clientPort" -}}
{{- include "ledgergate.port" (dict "key" "config.listen.port" "value" (dig "listen" "port" 8080 .Values.config)) -}}
{{- end -}}

{{- define "ledgergate.operationsPort" -}}
{{- include "ledgergate.port" (dict "key" "config.operations.port" "value" (dig "operations" "port" 9090 .Values.config)) -}}
{{- end -}}

{{- define "ledgergate.port" -}}
{{- if kindIs "string" .value -}}
{{- fail (printf "%s is %s: the chart has to know the number, for Services and probes" .key .value) -}}
{{- end -}}
{{- if eq (int .value) 0 -}}
{{- fail (printf "%s is 0, any port: Services and probes need one that is known" .key) -}}
{{- end -}}
{{- int .value -}}
{{- end -}}

{{- define "ledgergate.basePath" -}}
{{- $path := dig "listen" "basePath" "/v1" .Values.config -}}
{{- if contains "${" $path -}}
{{- fail (printf "config.listen.basePath is %s: the chart has to know the path, for routes" $path) -}}
{{- end -}}
{{- $path -}}
{{- end -}}

{{- define "ledgergate.hasTls" -}}
{{- if or .Values.secrets.tls.existingSecret (dig "listen" "tls" nil .Values.config) }}true{{ end -}}
{{- end -}}

{{/* Everything that is refused, and why. Writes nothing. */}}
{{- define "ledgergate.checkConfig" -}}
{{- $config := .Values.config -}}
{{- $loopback := "^(localhost|127(\\.[0-9]{1,3}){3}|::1)$" -}}
{{- if regexMatch $loopback (dig "operations" "host" "127.0.0.1" $config) -}}
{{- fail "config.operations.host is loopback: probes and Prometheus come from outside the pod. Use 0.0.0.0 or ::, and networkPolicy to keep others out" -}}
{{- end -}}
{{- if regexMatch $loopback (dig "listen" "host" "0.0.0.0" $config) -}}
{{- fail "config.listen.host is loopback: clients come from outside the pod. Use 0.0.0.0 or ::" -}}
{{- end -}}
{{- if eq (include "ledgergate.clientPort" .) (include "ledgergate.operationsPort" .) -}}
{{- fail (printf "config.listen.port and config.operations.port are both %s" (include "ledgergate.clientPort" .)) -}}
{{- end -}}
{{- with .Values.networkPolicy -}}
{{- if and .enabled .egress.enabled (not .egress.rules) -}}
{{- fail "networkPolicy.egress is enabled and networkPolicy.egress.rules is empty: the gateway could reach no node. Say where nodes and Redis are" -}}
{{- end -}}
{{- end -}}
{{- include "ledgergate.checkSecrets" . -}}
{{- end -}}

{{/* A ConfigMap is no place for a secret, and a thing is said once. */}}
{{- define "ledgergate.checkSecrets" -}}
{{- $config := .Values.config -}}
{{- $secrets := .Values.secrets -}}
{{- $token := dig "operations" "token" "" $config -}}
{{- if and $token (not (contains "${" $token)) -}}
{{- fail "config.operations.token is a secret, and config becomes a ConfigMap: use secrets.operationsToken.existingSecret" -}}
{{- end -}}
{{- range $place := list (dict "section" "cache" "secret" "redis") (dict "section" "access" "secret" "accessRedis") -}}
{{- $redis := dig $place.section "redis" (dict) $config | default dict -}}
{{- $given := (get $secrets $place.secret).existingSecret -}}
{{- $servers := concat (list ($redis.url | default "")) ($redis.cluster | default list) (dig "sentinel" "nodes" list $redis) -}}
{{- range $servers -}}
{{- if and (regexMatch "^rediss?://[^/]*@" .) (not (contains "${" .)) -}}
{{- fail (printf "an address in config.%s.redis has a password, and config becomes a ConfigMap: use secrets.%s.existingSecret, or ${file:...} with secrets.files" $place.section $place.secret) -}}
{{- end -}}
{{- end -}}
{{- if and $given (or $redis.url $redis.cluster $redis.sentinel) -}}
{{- fail (printf "Redis is given twice: by config.%s.redis and by secrets.%s.existingSecret" $place.section $place.secret) -}}
{{- end -}}
{{- end -}}
{{- $senders := list (dict "what" "config.tracing" "headers" (dig "tracing" "headers" (dict) $config)) -}}
{{- range $config.upstreams -}}
{{- $senders = append $senders (dict "what" (printf "config.upstreams, %s" .name) "headers" .headers) -}}
{{- end -}}
{{- range $sender := $senders -}}
{{- range $name, $value := $sender.headers | default dict -}}
{{- if not (contains "${" $value) -}}
{{- fail (printf "%s: the header %s is a credential, and config becomes a ConfigMap: use ${file:...} with secrets.files" $sender.what $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $secrets.operationsToken.existingSecret $token -}}
{{- fail "the token of /admin is given twice: by config.operations.token and by secrets.operationsToken.existingSecret" -}}
{{- end -}}
{{- if and $secrets.accessKeys.existingSecret (dig "access" "keys" "file" "" $config) -}}
{{- fail "the file of keys is given twice: by config.access.keys.file and by secrets.accessKeys.existingSecret" -}}
{{- end -}}
{{- range list "accessKeys" "accessRedis" -}}
{{- if and (get $secrets .).existingSecret (not $config.access) -}}
{{- fail (printf "secrets.%s.existingSecret is of keys, and config.access says nothing of their plans" .) -}}
{{- end -}}
{{- end -}}
{{- if and $secrets.tls.existingSecret (dig "listen" "tls" nil $config) -}}
{{- fail "the certificate is given twice: by config.listen.tls and by secrets.tls.existingSecret" -}}
{{- end -}}
{{- end -}}
