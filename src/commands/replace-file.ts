/** Replaces a file as a whole: a reader gets the old one or the new one, never a part. */
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join, basename } from 'node:path';
import { RuntimeFailure } from './command.ts';

/** Mode of a new file: readable by its owner alone. */
const mode = 0o600;

/**
 * Replaces `file` by the result of `change`, one caller at a time. `change` runs under the lock, so the file that it
 * reads is the replaced one. Permissions stay. Throws as `change` does, and RuntimeFailure when writing fails.
 */
export function replaceFile(file: string, change: (target: string) => string): void {
  const target = resolved(file);
  const beside = join(dirname(target), `.${basename(target)}.new`);
  const descriptor = open(beside, file);
  try {
    const text = change(target);
    keepRights(descriptor, target);
    writeSync(descriptor, text);
    fsyncSync(descriptor);
    renameSync(beside, target);
  } catch (error) {
    unlinkSync(beside);
    throw error;
  } finally {
    closeSync(descriptor);
  }
  syncFolder(dirname(target));
}

/** A gateway that may not read the new file would go on with the keys of the old one, revoked ones among them. */
function keepRights(descriptor: number, target: string): void {
  const before = statSync(target, { throwIfNoEntry: false });
  if (before === undefined) return;
  const { uid, gid } = fstatSync(descriptor);
  try {
    if (uid !== before.uid || gid !== before.gid) fchownSync(descriptor, before.uid, before.gid);
  } catch (error) {
    const owner = `${before.uid}:${before.gid}`;
    throw new RuntimeFailure(
      `cannot change ${target}: it would not stay its owner's (${owner}); run this as that user`,
      {
        cause: error,
      },
    );
  }
  fchmodSync(descriptor, before.mode & 0o777);
}

/** A link stays one; its target is replaced. */
function resolved(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function open(beside: string, file: string): number {
  try {
    return openSync(beside, 'wx', mode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why =
      code === 'EEXIST' ? `${beside} exists: another change is running, or one was cut off (then delete it)` : code;
    throw new RuntimeFailure(`cannot change ${file}: ${why}`, { cause: error });
  }
}

/** The new name is durable only with its folder. Some file systems cannot sync folders. */
function syncFolder(folder: string): void {
  try {
    const descriptor = openSync(folder, 'r');
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // The file itself is whole either way.
  }
}
