import type { Position } from '../finding.ts';

/** Where an id was found first. */
export type FirstPlace = { file: string } & Position;

/**
 * The ids of one or more inventories, and where each stands first. Nearly all ids are found once, so that a set and
 * lists of numbers take them in; what stands where in the set is looked for only when an id comes again.
 */
export class IdRegister {
  readonly #ids = new Set<string>();
  readonly #lines: number[] = [];
  readonly #columns: number[] = [];
  /** For each file how many ids stand before it. */
  readonly #files: { file: string; before: number }[] = [];
  readonly #order = new Map<string, number>();
  readonly #unordered = this.#ids.values();

  /** Takes an id in; gives its first place where it has come before. */
  add(id: string, file: string, { line, column }: Position): FirstPlace | null {
    const { size } = this.#ids;
    if (this.#ids.add(id).size === size) return this.#placeOf(id);
    if (this.#files.at(-1)?.file !== file) this.#files.push({ file, before: size });
    this.#lines.push(line);
    this.#columns.push(column);
    return null;
  }

  #placeOf(id: string): FirstPlace {
    while (!this.#order.has(id)) {
      const { value = id } = this.#unordered.next();
      this.#order.set(value, this.#order.size);
    }
    const index = this.#order.get(id) ?? 0;
    const { file = '' } = this.#files.findLast(({ before }) => before <= index) ?? {};
    return { file, line: this.#lines[index] ?? 0, column: this.#columns[index] ?? 0 };
  }
}
