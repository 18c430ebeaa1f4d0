/** The messages between a process and the thread that writes its store. */
import type { ScopeMark } from '../purge/purge-scope.ts';

/** An answer to write, with its read's reference. Its bytes are in the batch: 16 of the name, then the record. */
export interface StoredWrite {
  /** Offset of the name in the batch's bytes. */
  readonly at: number;
  /** Bytes of the record behind the name. */
  readonly length: number;
  readonly digest: string;
  /** The term in which the answer was read. */
  readonly term: string;
  /** The reference's text behind the digest. */
  readonly rest: string;
  /** Marks of the read, by which a purge finds it. */
  readonly read: number;
  readonly account: number;
  /** The present record is damaged. */
  readonly overwrite: boolean;
}

/** Answers that are written in one transaction. */
export interface WriteBatch {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly writes: readonly StoredWrite[];
  /** References that were used, whose rows move behind newer ones. */
  readonly renewals: readonly Renewal[];
}

/** A reference that was used while it was among the older half. */
export interface Renewal {
  readonly name: Uint8Array;
  /** The row's `id` when it was used. */
  readonly id: number;
}

/** A work for the thread. Each is answered once, in order. */
export type StoreWork =
  | { readonly kind: 'write'; readonly batch: WriteBatch }
  /** Hides the references with these marks. */
  | { readonly kind: 'purge'; readonly marks: readonly ScopeMark[] }
  /** Deletes one read's reference. */
  | { readonly kind: 'forget'; readonly name: Uint8Array }
  | { readonly kind: 'put terms'; readonly ledger: string; readonly fields: Readonly<Record<string, string>> }
  | { readonly kind: 'delete terms'; readonly ledger: string; readonly fields: readonly string[] }
  /** Records this process as a member of the term. */
  | { readonly kind: 'beat'; readonly ledger: string; readonly term: string; readonly run: string };

/** A message to the thread. */
export type ToThread =
  | { readonly kind: 'work'; readonly id: number; readonly work: StoreWork }
  /** A look-up found the file damaged. */
  | { readonly kind: 'damaged'; readonly number: number }
  | { readonly kind: 'close' };

/** The fill of the file. */
export interface StoreFill {
  /** Bytes of pages in use. */
  readonly bytes: number;
  /** References with a lower `id` are among the older half. */
  readonly middle: number;
}

/** A message of the thread. */
export type FromThread =
  /** The work is done, or failed. */
  | { readonly kind: 'done'; readonly id: number; readonly isDone: boolean; readonly fill: StoreFill | undefined }
  /** The file in use; `undefined`: none, for the reason `fault`. */
  | { readonly kind: 'file'; readonly number: number | undefined; readonly fault: string | undefined };

/** The start of a thread. */
export interface ThreadSetup {
  readonly folder: string;
  /** Most bytes on the disk. */
  readonly maxBytes: number;
  /** Several processes of the gateway use the folder. */
  readonly isShared: boolean;
  /** The name of this start of the gateway. */
  readonly run: string;
}
