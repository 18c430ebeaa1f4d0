/** Panels of the gateway's own parts: encoder, Redis, limits, process. */
import type { Row } from './panel.ts';

const yes = { '0': { text: 'no', color: 'red' }, '1': { text: 'yes', color: 'green' } } as const;

export const encodeRow: Row = {
  title: 'Bytes to sign, and their proof',
  panels: [
    {
      title: 'Who encoded',
      description: 'Requests for a signing message: answered here (local), by a node and why, or refused.',
      unit: 'reqps',
      kind: 'stacked',
      series: {
        'sum by (outcome, reason) (rate(ledgergate_encode_requests_total{$on}[$__rate_interval])) > 0':
          '{{outcome}} {{reason}}',
      },
    },
    {
      title: 'Compared with nodes',
      description: 'Local encodings that a node was asked for as well. mismatch: other bytes, and somebody is paged.',
      unit: 'ops',
      series: { 'sum by (result) (rate(ledgergate_encode_checks_total{$on}[$__rate_interval]))': '{{result}}' },
    },
    {
      title: 'Functions left to nodes',
      description: 'Because a node once encoded them differently. Until a restart.',
      unit: 'none',
      bad: 1,
      series: { 'max by (instance) (ledgergate_encode_distrusted_functions{$on})': '{{instance}}' },
    },
  ],
};

export const redisRow: Row = {
  title: 'Redis',
  panels: [
    {
      title: 'Used, and takes writes',
      description: 'Whether each replica uses Redis, and whether Redis takes writes.',
      unit: 'none',
      kind: 'states',
      words: yes,
      series: {
        'min by (instance) (ledgergate_redis_up{$on})': '{{instance}} used',
        'min by (instance) (ledgergate_redis_writable{$on})': '{{instance}} writes',
      },
    },
    {
      title: 'Look-ups',
      description: 'hit, absent, damaged (replaced), unavailable.',
      unit: 'ops',
      series: { 'sum by (outcome) (rate(ledgergate_redis_lookups_total{$on}[$__rate_interval]))': '{{outcome}}' },
    },
    {
      title: 'Time of look-ups',
      description: 'What Redis adds to a read.',
      unit: 's',
      series: {
        'histogram_quantile(0.5, sum by (le) (rate(ledgergate_redis_lookup_duration_seconds_bucket{$on}[$__rate_interval])))':
          'p50',
        'histogram_quantile(0.99, sum by (le) (rate(ledgergate_redis_lookup_duration_seconds_bucket{$on}[$__rate_interval])))':
          'p99',
      },
    },
    {
      title: 'Who reads what Redis has not',
      description: 'lead: this replica, for all. followed: another one did. alone: without Redis.',
      unit: 'ops',
      series: { 'sum by (turn) (rate(ledgergate_redis_reads_total{$on}[$__rate_interval]))': '{{turn}}' },
    },
    {
      title: 'Writes',
      description: 'Answers for Redis. dropped: too many waited.',
      unit: 'ops',
      series: {
        'sum by (outcome) (rate(ledgergate_redis_writes_total{$on}[$__rate_interval]))': '{{outcome}}',
        'sum(ledgergate_redis_pending_writes{$on})': 'on their way',
      },
    },
    {
      title: 'Commands that failed',
      description: 'By kind. 0 is usual.',
      unit: 'ops',
      series: { 'sum by (kind) (rate(ledgergate_redis_failures_total{$on}[$__rate_interval]))': '{{kind}}' },
    },
  ],
};

export const limitsRow: Row = {
  title: 'Keys, plans and limits',
  panels: [
    {
      title: 'Requests by plan',
      description: 'And what they came to.',
      unit: 'reqps',
      series: {
        'sum by (plan, outcome) (rate(ledgergate_access_requests_total{$on}[$__rate_interval]))':
          '{{plan}} {{outcome}}',
      },
    },
    {
      title: 'Cost by plan',
      description: 'What requests cost, a second.',
      unit: 'short',
      series: { 'sum by (plan) (rate(ledgergate_access_cost_total{$on}[$__rate_interval]))': '{{plan}}' },
    },
    {
      title: 'Refused',
      description: 'For whom they were from, by reason, and over a limit, by bound.',
      unit: 'reqps',
      series: {
        'sum by (reason) (rate(ledgergate_access_refusals_total{$on}[$__rate_interval]))': '{{reason}}',
        'sum by (plan, bound) (rate(ledgergate_limits_refusals_total{$on}[$__rate_interval]))': '{{plan}} {{bound}}',
      },
    },
    {
      title: 'Waiting for their turn',
      description: 'Requests over a limit that wait instead of being refused.',
      unit: 'short',
      series: { 'sum(ledgergate_limits_waiting{$on})': 'waiting' },
    },
    {
      title: 'Not counted for all',
      description: 'Requests that Redis did not count, by what was done, and reports that did not get there.',
      unit: 'ops',
      series: {
        'sum by (choice) (rate(ledgergate_limits_fallback_total{$on}[$__rate_interval]))': '{{choice}}',
        'sum by (what) (rate(ledgergate_limits_lost_total{$on}[$__rate_interval]))': 'lost {{what}}',
      },
    },
    {
      title: 'Keys',
      description: 'Keys that are known, and how often they could not be read again.',
      unit: 'none',
      series: {
        'max(ledgergate_keys{$on})': 'known',
        'sum by (source, result) (ledgergate_keys_reloads_total{$on})': '{{source}} {{result}}',
      },
    },
  ],
};

export const processRow: Row = {
  title: 'Process',
  panels: [
    {
      title: 'Event loop lag',
      description: 'How late the event loop is; at half a second of it reads of nodes are refused.',
      unit: 's',
      warn: 0.05,
      bad: 0.5,
      series: { 'max by (instance) (ledgergate_event_loop_lag_seconds{$on})': '{{instance}}' },
    },
    {
      title: 'Processor',
      description: 'Processors that are used, all processes of a replica together.',
      unit: 'short',
      series: { 'sum by (instance) (rate(process_cpu_seconds_total{$on}[$__rate_interval]))': '{{instance}}' },
    },
    {
      title: 'Memory',
      description: 'Resident memory, and heap in use, all processes of a replica together.',
      unit: 'bytes',
      series: {
        'sum by (instance) (process_resident_memory_bytes{$on})': '{{instance}} resident',
        'sum by (instance) (nodejs_heap_size_used_bytes{$on})': '{{instance}} heap',
        'sum by (instance) (nodejs_external_memory_bytes{$on})': '{{instance}} external',
      },
    },
    {
      title: 'Garbage collection',
      description: 'Share of time in it, by kind.',
      unit: 'percentunit',
      series: {
        'sum by (kind) (rate(nodejs_gc_duration_seconds_sum{$on}[$__rate_interval]))': '{{kind}}',
      },
    },
    {
      title: 'Workers',
      description: 'Workers that serve, and those that were started again, since the gateway was started.',
      unit: 'none',
      series: {
        'sum by (instance) (ledgergate_workers{$on})': '{{instance}} serving',
        'sum by (instance) (ledgergate_worker_restarts_total{$on})': '{{instance}} restarts',
        'sum by (instance) (ledgergate_worker_hangs_total{$on})': '{{instance}} hangs',
      },
    },
    {
      title: 'Log lines',
      description: 'By level. Lines are written once per change of state.',
      unit: 'ops',
      series: { 'sum by (level) (rate(ledgergate_log_lines_total{$on}[$__rate_interval]))': '{{level}}' },
    },
    {
      title: 'Config in order',
      description: 'Whether the config file was in order when it was last read; and keys that could be read.',
      unit: 'none',
      kind: 'states',
      words: yes,
      series: { 'min by (instance) (ledgergate_config_last_reload_successful{$on})': '{{instance}}' },
    },
    {
      title: 'Certificate',
      description: 'How long the certificate that clients are shown lasts.',
      unit: 's',
      low: true,
      warn: 1_209_600,
      bad: 259_200,
      series: {
        'min by (instance) (ledgergate_tls_certificate_expiry_timestamp_seconds{$on}) - time()': '{{instance}}',
      },
    },
    {
      title: 'Release',
      description: 'Replicas by release and Node version.',
      unit: 'none',
      series: {
        'count by (version, node, dialect) (ledgergate_build_info{$on})': '{{version}}, Node {{node}}, {{dialect}}',
      },
    },
  ],
};
