/**
 * What texts of the keys file say. A text is parsed once: that takes long where there are many keys, and plans are
 * compared with them at every reload of the config.
 */
import { parseKeysFile, type FileKey } from '../config/keys-file.ts';
import { ConfigError } from '../config/problem.ts';

/** `keys`: absent where it is wrong, whatever plans there are. */
interface Reading {
  readonly text: string;
  readonly keys: readonly FileKey[] | undefined;
}

/** What is in force, and what the file says now. */
const mostReadings = 2;

export class KeysReadings {
  readonly #file: string;
  /** Used last, last. */
  #readings: readonly Reading[] = [];

  constructor(file: string) {
    this.#file = file;
  }

  /** The keys of the text where it can be used with these plans. */
  findFit(text: string, plans: ReadonlySet<string>): readonly FileKey[] | undefined {
    const { keys } = this.#readingOf(text);
    return keys?.every(({ plan }) => plans.has(plan)) === true ? keys : undefined;
  }

  /** The keys of the text. Throws ConfigError where it is wrong, or has keys of other plans than these. */
  keysOf(text: string, plans: ReadonlySet<string>): readonly FileKey[] {
    // One that is refused is parsed again, for all that is wrong with it and where.
    return this.findFit(text, plans) ?? parseKeysFile(text, this.#file, plans);
  }

  #readingOf(text: string): Reading {
    const reading = this.#readings.find((known) => known.text === text) ?? this.#read(text);
    const others = this.#readings.filter((known) => known !== reading);
    this.#readings = [...others, reading].slice(-mostReadings);
    return reading;
  }

  #read(text: string): Reading {
    try {
      return { text, keys: parseKeysFile(text, this.#file) };
    } catch (error) {
      if (error instanceof ConfigError) return { text, keys: undefined };
      throw error;
    }
  }
}
