/** Panels of nodes: what they hold, and how they do. */
import type { Row } from './panel.ts';

const usable = { '0': { text: 'not usable', color: 'red' }, '1': { text: 'usable', color: 'green' } } as const;
const ejected = { '0': { text: 'asked', color: 'green' }, '1': { text: 'passed over', color: 'orange' } } as const;

export const fleetRow: Row = {
  title: 'What nodes hold',
  panels: [
    {
      title: 'Windows of all nodes',
      description:
        'Newest and oldest version of each node, on one axis. What is between the two lines of a node, it holds.',
      unit: 'locale',
      width: 16,
      series: {
        'max by (upstream) (ledgergate_upstream_head_version{$on})': '{{upstream}} newest',
        'max by (upstream) (ledgergate_upstream_oldest_version{$on})': '{{upstream}} oldest',
      },
    },
    {
      title: 'Versions in the window',
      description: 'How many versions each node holds, archival ones left out.',
      unit: 'short',
      series: {
        'max by (upstream) (ledgergate_upstream_head_version{$on}) - (max by (upstream) (ledgergate_upstream_oldest_version{$on}) > 0)':
          '{{upstream}}',
      },
    },
    {
      title: 'Speed of the edge and of the ledger',
      description: 'Versions a second by which the oldest version moves. Above the ledger, a window shrinks.',
      unit: 'short',
      series: {
        'max by (upstream) (ledgergate_upstream_edge_speed_versions_per_second{$on})': '{{upstream}}',
        'max(deriv(ledgergate_fleet_head_version{$on}[$__rate_interval]))': 'ledger',
      },
    },
    {
      title: 'Safety margin above the edge',
      description: 'How far above the told oldest version a read must be to be sent to the node now.',
      unit: 'short',
      series: { 'max by (upstream) (ledgergate_upstream_edge_margin_versions{$on})': '{{upstream}}' },
    },
    {
      title: 'Pruned answers repaired',
      description: 'Requests that one node called pruned and another answered: what the margin did not foresee.',
      unit: 'reqps',
      series: { 'sum(rate(ledgergate_pruned_answers_repaired_total{$on}[$__rate_interval]))': 'repaired' },
    },
    {
      title: 'Behind the head',
      description: 'Versions that each node is behind the newest of the others.',
      unit: 'short',
      series: { 'max by (upstream) (ledgergate_upstream_lag_versions{$on})': '{{upstream}}' },
    },
    {
      title: 'Oldest version that can be served',
      description: 'Of the fleet. A jump upwards: the node that held the history is away.',
      unit: 'locale',
      series: {
        'max(ledgergate_fleet_oldest_version{$on})': 'oldest',
        'max(ledgergate_fleet_head_version{$on})': 'head',
      },
    },
  ],
};

export const nodesRow: Row = {
  title: 'How nodes do',
  panels: [
    {
      title: 'Usable',
      description: 'Whether a node is asked: it answers, and is of the chain. The worst word of all gateways.',
      unit: 'none',
      kind: 'states',
      words: usable,
      series: { 'min by (upstream) (ledgergate_upstream_usable{$on})': '{{upstream}}' },
    },
    {
      title: 'Passed over',
      description: 'Nodes that do worse than others on the same reads, by class of reads.',
      unit: 'none',
      kind: 'states',
      words: ejected,
      series: { 'max by (upstream, class) (ledgergate_upstream_ejected{$on})': '{{upstream}} {{class}}' },
    },
    {
      title: 'Requests to nodes',
      description: 'Answered by each node, a second.',
      unit: 'reqps',
      kind: 'stacked',
      series: { 'sum by (upstream) (rate(ledgergate_upstream_requests_total{$on}[$__rate_interval]))': '{{upstream}}' },
    },
    {
      title: 'Failures by node',
      description: 'Attempts without a usable answer, by what went wrong.',
      unit: 'ops',
      series: {
        'sum by (upstream, kind) (rate(ledgergate_upstream_failures_total{$on}[$__rate_interval])) > 0':
          '{{upstream}} {{kind}}',
      },
    },
    {
      title: 'p95 of attempts',
      description: 'Time of one attempt at a node at the 95th percentile.',
      unit: 's',
      series: {
        'histogram_quantile(0.95, sum by (le, upstream) (rate(ledgergate_upstream_request_duration_seconds_bucket{$on}[$__rate_interval])))':
          '{{upstream}}',
      },
    },
    {
      title: 'Retries and hedges',
      description:
        'Second attempts after a failed one, and beside a slow one. refused: their share of the traffic is used up.',
      unit: 'ops',
      series: {
        'sum by (outcome) (rate(ledgergate_retries_total{$on}[$__rate_interval]))': 'retry {{outcome}}',
        'sum by (outcome) (rate(ledgergate_hedges_total{$on}[$__rate_interval]))': 'hedge {{outcome}}',
      },
    },
    {
      title: 'How full nodes are',
      description: 'Requests under way in parts of what the node is given at once.',
      unit: 'percentunit',
      series: {
        'sum by (upstream) (ledgergate_upstream_in_flight_requests{$on}) / sum by (upstream) (ledgergate_upstream_concurrency_limit{$on})':
          '{{upstream}}',
      },
      bad: 1,
    },
    {
      title: 'Waiting for a place',
      description: 'Requests that wait for a place at a node now, and those that got none.',
      unit: 'short',
      series: {
        'sum(ledgergate_upstream_queue_requests{$on})': 'waiting',
        'sum by (reason) (rate(ledgergate_upstream_queue_refusals_total{$on}[$__rate_interval]))': 'refused {{reason}}',
      },
    },
    {
      title: 'Time of waiting for a place',
      description: 'Of those requests that waited, at the 95th percentile.',
      unit: 's',
      series: {
        'histogram_quantile(0.95, sum by (le) (rate(ledgergate_upstream_queue_wait_seconds_bucket{$on}[$__rate_interval])))':
          'p95',
      },
    },
    {
      title: 'Audits',
      description: 'Pinned reads that were asked of a second node, by result. disagreement: one of the two is wrong.',
      unit: 'ops',
      series: { 'sum by (result) (rate(ledgergate_audits_total{$on}[$__rate_interval]))': '{{result}}' },
    },
    {
      title: 'Disagreements',
      description: 'Pinned reads that two nodes answered differently, since the gateways were started. 0 is usual.',
      unit: 'none',
      bad: 1,
      series: { 'sum by (upstream, other) (ledgergate_audit_disagreements_total{$on})': '{{upstream}} and {{other}}' },
    },
    {
      title: 'Ejections',
      description: 'Times that a node began to be passed over, by reason.',
      unit: 'ops',
      series: {
        'sum by (upstream, reason) (rate(ledgergate_upstream_ejections_total{$on}[$__rate_interval]))':
          '{{upstream}} {{reason}}',
      },
    },
  ],
};
