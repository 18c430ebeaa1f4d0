/** Replaces a file as a whole: a reader gets the old one or the new one, never a part. */
import * as fs from 'node:fs/promises';
import { dirname, join, basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { KeysFault } from './key-source.ts';

const newMode = 0o600;
/** Longest wait for others, each of which takes milliseconds, or a tenth of a second on a slow disk. */
const longestWaitMs = 5_000;
const pauseMs = 20;
/** A change that began so long ago was cut off. */
const abandonedMs = 30_000;

/**
 * Replaces `file` by the result of `change`, one caller at a time among all processes of all machines that share the folder.
 * `change` gets the present text (`undefined` without a file) under the lock, so no other caller's change is lost.
 * Permissions stay. Rejects as `change` does, and with `KeysFault` when the file cannot be written.
 */
export async function replaceFile(file: string, change: (text: string | undefined) => Promise<string>): Promise<void> {
  // A link stays one; its target is replaced.
  const target = await fs.realpath(file).catch(() => file);
  // The lock is the new file itself, under this name.
  const beside = join(dirname(target), `.${basename(target)}.new`);
  const handle = await openAlone(beside, file);
  try {
    const before = await textOf(target);
    const text = await change(before);
    await keepRights(handle, target);
    await handle.writeFile(text);
    await handle.sync();
    if (!(await isOwn(handle, beside))) throw new KeysFault('unavailable', `cannot change ${file}: it took too long`);
    // Editors of people know no lock.
    if ((await textOf(target)) !== before)
      throw new KeysFault('unavailable', `cannot change ${file}: another program has changed it meanwhile: try again`);
    await fs.rename(beside, target);
  } catch (error) {
    if (await isOwn(handle, beside)) await fs.unlink(beside);
    throw faultOf(error, file);
  } finally {
    await handle.close();
  }
  await syncFolder(dirname(target));
}

async function openAlone(beside: string, file: string): Promise<fs.FileHandle> {
  const untilMs = performance.now() + longestWaitMs;
  for (;;) {
    try {
      return await fs.open(beside, 'wx', newMode);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw faultOf(error, file);
      if (performance.now() > untilMs) {
        const why = `${beside} exists: another change is running, or one was cut off (then delete it)`;
        throw new KeysFault('unavailable', `cannot change ${file}: ${why}`, { cause: error });
      }
    }
    await removeAbandoned(beside);
    await sleep(pauseMs);
  }
}

/**
 * Removes the new file of a killed process. A second name, which one caller gets at a time, keeps two callers from removing
 * it in turn, the second one the first one's own new file.
 */
async function removeAbandoned(beside: string): Promise<void> {
  const claim = `${beside}.old`;
  try {
    await fs.link(beside, claim);
  } catch {
    return;
  }
  try {
    const { mtimeMs } = await fs.stat(claim);
    if (Date.now() - mtimeMs > abandonedMs) await fs.unlink(beside);
  } finally {
    await fs.unlink(claim);
  }
}

/** Whether the name still leads to the file that was opened: a process that was stopped for long may have lost it. */
async function isOwn(handle: fs.FileHandle, beside: string): Promise<boolean> {
  const { ino } = await handle.stat();
  const found = await fs.stat(beside).catch(() => undefined);
  return found?.ino === ino;
}

async function textOf(target: string): Promise<string | undefined> {
  try {
    return await fs.readFile(target, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A gateway that may not read the new file would go on with the keys of the old one, revoked ones among them. */
async function keepRights(handle: fs.FileHandle, target: string): Promise<void> {
  const before = await fs.stat(target).catch(() => undefined);
  if (before === undefined) return;
  const { uid, gid } = await handle.stat();
  try {
    if (uid !== before.uid || gid !== before.gid) await handle.chown(before.uid, before.gid);
  } catch (error) {
    const why = `it would not stay its owner's (${before.uid}:${before.gid}); run this as that user`;
    throw new KeysFault('unavailable', `cannot change ${target}: ${why}`, { cause: error });
  }
  await handle.chmod(before.mode & 0o777);
}

function faultOf(error: unknown, file: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return error;
  return new KeysFault('unavailable', `cannot change ${file}: ${code}`, { cause: error });
}

/** The new name is durable only with its folder. Some file systems cannot sync folders: the file is whole either way. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await fs.open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
