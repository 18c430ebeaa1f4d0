/** One look at the folder of the store: can it be used, and is there room? Nothing is written. */
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { StoreConfig } from '../../config/config.ts';
import { faultOf } from '../../cache/store/file.ts';
import type { CheckFinding } from './inspect-fleet.ts';

/** Problems and warnings about the store. */
export interface StoreInspection {
  readonly findings: readonly CheckFinding[];
  readonly warnings: readonly string[];
}

/** `f_type` of file systems (statfs(2)) that no store belongs on: their locks do not hold, or they are memory. */
const unfit: Readonly<Record<number, string>> = {
  0x6969: 'NFS, whose locks may not hold',
  0xff534d42: 'CIFS, whose locks may not hold',
  0x517b: 'SMB, whose locks may not hold',
  0x01021994: 'tmpfs, which is memory',
};

/** Looks at the store's folder, or at the one above it, which the gateway will create it in. */
export function inspectStore({ path: folder, maxBytes }: StoreConfig): StoreInspection {
  const place = existsSync(folder) ? folder : dirname(folder);
  try {
    accessSync(place, constants.R_OK | constants.W_OK | constants.X_OK);
    const names = existsSync(folder) ? readdirSync(folder) : [];
    const held = names.reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
    return { findings: [], warnings: warningsOf(place, maxBytes - held) };
  } catch (error) {
    return { findings: [{ path: ['cache', 'store', 'path'], message: faultOf(error) }], warnings: [] };
  }
}

/** `wantedBytes`: beside the files that are there. */
function warningsOf(place: string, wantedBytes: number): readonly string[] {
  const { bavail, bsize, type } = statfsSync(place);
  const free = bavail * bsize;
  const kind = unfit[type];
  return [
    ...(kind === undefined ? [] : [`cache.store.path is on ${kind}: use a local disk`]),
    ...(free >= wantedBytes
      ? []
      : [
          `cache.store.maxBytes is more than the disk has free: ${gib(wantedBytes)} GiB beside what is there, of ${gib(free)}`,
        ]),
  ];
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}
