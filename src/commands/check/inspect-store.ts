/** One look at the store's folder: can the gateway use it? Nothing is written. */
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { faultOf } from '../../cache/index.ts';
import type { Config } from '../../config/index.ts';

/** `f_type` of file systems (statfs(2)) that no store belongs on: their locks do not hold, or they are memory. */
const unfit: Readonly<Record<number, string>> = {
  0x6969: 'NFS, whose locks may not hold',
  0xff534d42: 'CIFS, whose locks may not hold',
  0x517b: 'SMB, whose locks may not hold',
  0x01021994: 'tmpfs, which is memory',
};

/** Looks at the store's folder, or at the one above it, which the gateway will create it in. */
export async function inspectStore({ path: folder, maxBytes }: NonNullable<Config['cache']['store']>) {
  const place = existsSync(folder) ? folder : dirname(folder);
  try {
    accessSync(place, constants.R_OK | constants.W_OK | constants.X_OK);
    const names = existsSync(folder) ? readdirSync(folder) : [];
    const held = names.reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
    return { findings: [], warnings: warningsOfDisk(place, maxBytes - held) };
  } catch (error) {
    return { findings: [{ path: ['cache', 'store', 'path'], message: faultOf(error) }], warnings: [] };
  }
}

/** `wantedBytes`: beside the files that are there. */
function warningsOfDisk(place: string, wantedBytes: number): readonly string[] {
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
