/** One file out of a zip archive. Only what packages of npm have is understood: no encryption, no archive above 4 GB. */
import { inflateRawSync } from 'node:zlib';

const signatures = { end: 0x06054b50, directory: 0x02014b50 } as const;

/** The bytes of `name`. Throws when it is not there. */
export function readEntry(archive: Buffer, name: string): Buffer {
  const end = archive.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  if (end < 0 || archive.readUInt32LE(end) !== signatures.end) throw new Error('this is no zip archive');
  let at = archive.readUInt32LE(end + 16);
  while (archive.readUInt32LE(at) === signatures.directory) {
    const nameBytes = archive.readUInt16LE(at + 28);
    if (archive.toString('utf8', at + 46, at + 46 + nameBytes) === name) return contentOf(archive, at);
    at += 46 + nameBytes + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  throw new Error(`the archive has no ${name}`);
}

/** `at`: its place in the directory, which tells sizes even where they stand behind the content. */
function contentOf(archive: Buffer, at: number): Buffer {
  const method = archive.readUInt16LE(at + 10);
  const header = archive.readUInt32LE(at + 42);
  const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
  const stored = archive.subarray(start, start + archive.readUInt32LE(at + 20));
  if (method !== 0 && method !== 8) throw new Error(`compression method ${method} is not known`);
  return method === 0 ? stored : inflateRawSync(stored);
}
