/** Where the values of labels come from whose values are not known beforehand; said in docs/metrics.md. */
export const open = {
  upstream: 'names in `upstreams`',
  plan: 'names in `access.plans`',
  planOrNone: 'names in `access.plans`; empty where it is not known whose request it was',
  key: 'names of keys, at most 5,000; then `(other)`',
  status: 'codes from 100 to 599; `other` for what is none',
} as const;
