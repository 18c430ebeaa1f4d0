/** The package has no types of its own. */
declare module 'cluster-key-slot' {
  /** Slot of a key in Redis Cluster, 0 to 16383. */
  export default function calculateSlot(key: string): number;
}
