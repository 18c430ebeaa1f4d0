/** Files that hold one secret each, such as those that Docker, systemd and Kubernetes mount. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';

/** Bytes of a secret: a larger file is another one by mistake. */
const mostBytes = 64 * 1024;

/** The text of the file without its final line break. Throws an Error that names the file, and quotes nothing of it. */
export function readSecretFile(file: string): string {
  const bytes = readBounded(file);
  if (bytes.length > mostBytes) throw new Error(`${file} has more than ${mostBytes / 1024} KiB`);
  return decode(bytes, file).replace(/\r?\n$/, '');
}

/** At most one byte more than a secret may have. */
function readBounded(file: string): Buffer {
  try {
    // To open a pipe without a writer would block.
    if (!statSync(file).isFile()) throw new Error('it is no regular file');
    const opened = openSync(file, 'r');
    try {
      const bytes = Buffer.alloc(mostBytes + 1);
      let length = 0;
      for (let read = -1; read !== 0 && length < bytes.length; length += read)
        read = readSync(opened, bytes, length, bytes.length - length, null);
      return bytes.subarray(0, length);
    } finally {
      closeSync(opened);
    }
  } catch (error) {
    const { code, message: cause } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : (code ?? cause);
    throw new Error(`cannot read ${file}: ${why}`, { cause: error });
  }
}

function decode(bytes: Buffer, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Error(`${file} is not text in UTF-8`, { cause: error });
  }
}
