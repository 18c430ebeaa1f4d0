/**
 * Tells when files may have changed. Their folders are watched and not they themselves, because editors and tools put
 * another file in a file's place, and Kubernetes swaps a link beside it; and there is a look now and then as well, because
 * some file systems tell nothing. Whether anything has changed is for whoever looks to find out.
 */
import { watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';

export interface FolderWatchOptions {
  readonly onLook: () => void;
  /** News is acted on after this time, together with what comes meanwhile: writers take several steps. */
  readonly settleMs: number;
  /** How often is looked where nothing told of a change. */
  readonly everyMs: number;
}

export class FolderWatch {
  readonly #options: FolderWatchOptions;
  readonly #watchers: readonly FSWatcher[];
  readonly #timer: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;

  constructor(files: readonly string[], options: FolderWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(options.onLook, options.everyMs);
    this.#timer.unref();
    const folders = new Set(files.map((file) => dirname(file)));
    this.#watchers = [...folders].flatMap((folder) => this.#watch(folder));
  }

  /** Looks once more, after the time in which things settle. */
  lookSoon(): void {
    if (this.#soon !== undefined) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      this.#options.onLook();
    }, this.#options.settleMs);
    this.#soon.unref();
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    for (const watcher of this.#watchers) watcher.close();
  }

  /** A folder that cannot be watched, or goes, is no reason to fail: the looks have to do then. */
  #watch(folder: string): readonly FSWatcher[] {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.lookSoon());
      return [watcher.on('error', () => watcher.close())];
    } catch {
      return [];
    }
  }
}
