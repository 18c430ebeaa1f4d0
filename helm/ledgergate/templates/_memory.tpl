{{/*
What a pod's memory goes to, in MiB, and what of it is left for the heap (docs/kubernetes.md has the arithmetic in words).
The cache counts twice: answers are kept beside the heap, and which other versions have an equal one is known on it; which
of the two is the larger part depends on what is read.
*/}}

{{/* Beside the bookkeeping of the cache: the bounds of what else a process keeps (32 targets, 96 modules), and 80 to work. */}}
{{- define "ledgergate.workingHeapMiB" -}}208{{- end -}}
{{/* The heap of the primary. */}}
{{- define "ledgergate.idleHeapMiB" -}}64{{- end -}}
{{/* Measured: bench/RESULTS.md. */}}
{{- define "ledgergate.connectionBytes" -}}35000{{- end -}}

{{- define "ledgergate.memory" -}}
{{- $limit := include "ledgergate.quantityMiB" (dig "limits" "memory" 0 .Values.resources) | float64 -}}
{{- $cache := include "ledgergate.cacheMiB" . | float64 -}}
{{- $workers := include "ledgergate.workers" . | int -}}
{{- $others := eq $workers 1 | ternary 0 1 -}}
{{- $connections := dig "listen" "maxConnections" 10000 .Values.config -}}
{{- if kindIs "string" $connections -}}
{{- fail (printf "config.listen.maxConnections is %s: say the number, memory is set aside for it" $connections) -}}
{{- end -}}
{{- $connectionsMiB := divf (mulf $connections (include "ledgergate.connectionBytes" . | float64)) 1048576 -}}
{{- $processes := mulf .Values.memory.processMiB (add $workers $others) -}}
{{- $idle := mulf $others (include "ledgergate.idleHeapMiB" . | float64) -}}
{{- $pages := divf $cache 8 -}}
{{- $beside := addf $cache $pages .Values.memory.inFlightMiB $connectionsMiB $processes $idle -}}
{{- $needed := addf (divf $cache $workers) (include "ledgergate.workingHeapMiB" . | float64) -}}
{{- $least := addf $beside (mulf $needed $workers) | ceil | int -}}
{{- $left := divf (subf $limit $beside) $workers | floor | int -}}
{{- $heap := .Values.memory.heapMiB | int -}}
{{- if eq $limit 0.0 -}}
{{- $left = $heap -}}
{{- else if gt $least (int $limit) -}}
{{- fail (printf "resources.limits.memory is %s, and at least %dMi are needed: %.0f beside the heap (cache %.0f, pages of the follower %.0f, bodies on their way %.0f, connections %.0f, processes %.0f) and %.0f of heap for each of %d worker(s). Raise it, or lower config.cache.memory.maxBytes, config.listen.maxConnections, config.workers or memory.inFlightMiB" (toString .Values.resources.limits.memory) $least $beside $cache $pages (float64 .Values.memory.inFlightMiB) $connectionsMiB (addf $processes $idle) $needed $workers) -}}
{{- else if gt $heap $left -}}
{{- fail (printf "memory.heapMiB is %d, and resources.limits.memory (%s) leaves %d for each of %d worker(s)" $heap (toString .Values.resources.limits.memory) $left $workers) -}}
{{- end -}}
{{- dict "heapMiB" (eq $heap 0 | ternary $left $heap) "leastMiB" $least "workers" $workers | toJson -}}
{{- end -}}

{{- define "ledgergate.workers" -}}
{{- $workers := dig "workers" 1 .Values.config -}}
{{- if eq (toString $workers) "auto" -}}
{{- $cpu := dig "limits" "cpu" "" .Values.resources | toString -}}
{{- if eq $cpu "" -}}
{{- fail "config.workers is auto, one for each processor: set resources.limits.cpu as well, or a number of workers, because memory is divided among them" -}}
{{- end -}}
{{- $cores := hasSuffix "m" $cpu | ternary (divf (trimSuffix "m" $cpu | float64) 1000) ($cpu | float64) -}}
{{- max 1 (ceil $cores | int) -}}
{{- else if kindIs "string" $workers -}}
{{- fail (printf "config.workers is %s: say the number, memory is divided among workers" $workers) -}}
{{- else -}}
{{- int $workers -}}
{{- end -}}
{{- end -}}

{{- define "ledgergate.cacheMiB" -}}
{{- $size := dig "cache" "memory" "maxBytes" "256MiB" .Values.config -}}
{{- $number := regexFind "^[0-9]+" $size -}}
{{- if eq $number "" -}}
{{- fail (printf "config.cache.memory.maxBytes is %s: say the number, memory is set aside for it" $size) -}}
{{- end -}}
{{- $bytes := dict "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 "TiB" 1099511627776 -}}
{{- divf (mulf $number (get $bytes (trimPrefix $number $size) | float64)) 1048576 -}}
{{- end -}}

{{/* A quantity of Kubernetes (2Gi, 1500M, 1073741824) in MiB. */}}
{{- define "ledgergate.quantityMiB" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "(Ki|Mi|Gi|Ti|k|M|G|T)$" $text -}}
{{- $bytes := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- divf (mulf (trimSuffix $unit $text | float64) (get $bytes $unit | float64)) 1048576 -}}
{{- end -}}

{{- define "ledgergate.nodeOptions" -}}
{{- $heap := (include "ledgergate.memory" . | fromJson).heapMiB | int -}}
{{- $bound := eq $heap 0 | ternary "" (printf "--max-old-space-size=%d" $heap) -}}
{{- compact (list $bound .Values.nodeOptions) | join " " -}}
{{- end -}}
