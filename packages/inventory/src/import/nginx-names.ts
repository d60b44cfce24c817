import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { shorten } from '../shorten.ts';
import type { LeftOut } from './draft.ts';

/** An exact name, or one with a wildcard for its first or last labels. */
const NAME = /^(?<start>\*?\.)?[\w-]+(?:\.[\w-]+)*\.?(?<end>\.\*)?$/;

/** The names that a server is asked for by. */
export class ServerNames {
  readonly #exact = new Set<string>();
  readonly #wildcards = new Set<string>();

  /**
   * Adds a name as `server_name` has it. `_` and "" are names that nobody asks for.
   * https://nginx.org/en/docs/http/server_names.html
   * @param leftOut Is told what is no name, such as a regular expression.
   */
  add(written: string, leftOut: LeftOut): void {
    if (written === '_' || written === '') return;
    const match = written.length > MAX_HOST_CHARACTERS ? null : NAME.exec(written);
    if (match === null) {
      leftOut.add(() => `server_name ${shorten(written)}: ${whyNot(written)}`);
      return;
    }
    const { start, end } = match.groups ?? {};
    if (start === '.') this.#exact.add(written.slice(1));
    if (start === '.') this.#wildcards.add(`*${written}`);
    else if (start === undefined && end === undefined) this.#exact.add(written);
    else this.#wildcards.add(written);
  }

  /** The first name that stands for itself alone. */
  get domain(): string | undefined {
    return this.#exact.values().next().value;
  }

  /** What the server is called: a name, else a name with a wildcard. */
  get title(): string | undefined {
    return this.domain ?? this.#wildcards.values().next().value;
  }

  /** All names but the title, those with wildcards last. */
  others(): Set<string> {
    const others = this.#exact.union(this.#wildcards);
    others.delete(this.title ?? '');
    return others;
  }
}

function whyNot(written: string): string {
  if (written.startsWith('~')) return 'it is a regular expression; add the names that it is for';
  return written.startsWith('$')
    ? 'it is known only where nginx runs'
    : 'it is no name that browsers ask for';
}
