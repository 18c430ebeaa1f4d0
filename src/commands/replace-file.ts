/** Replaces a file as a whole: a reader gets the old one or the new one, never a part. */
import * as fs from 'node:fs';
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
    fs.writeSync(descriptor, text);
    fs.fsyncSync(descriptor);
    fs.renameSync(beside, target);
  } catch (error) {
    fs.unlinkSync(beside);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
  syncFolder(dirname(target));
}

/** A gateway that may not read the new file would go on with the keys of the old one, revoked ones among them. */
function keepRights(descriptor: number, target: string): void {
  const before = fs.statSync(target, { throwIfNoEntry: false });
  if (before === undefined) return;
  const { uid, gid } = fs.fstatSync(descriptor);
  try {
    if (uid !== before.uid || gid !== before.gid) fs.fchownSync(descriptor, before.uid, before.gid);
  } catch (error) {
    const owner = `${before.uid}:${before.gid}`;
    throw new RuntimeFailure(
      `cannot change ${target}: it would not stay its owner's (${owner}); run this as that user`,
      {
        cause: error,
      },
    );
  }
  fs.fchmodSync(descriptor, before.mode & 0o777);
}

/** A link stays one; its target is replaced. */
function resolved(file: string): string {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
}

function open(beside: string, file: string): number {
  try {
    return fs.openSync(beside, 'wx', mode);
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
    const descriptor = fs.openSync(folder, 'r');
    try {
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
  } catch {
    // The file itself is whole either way.
  }
}
