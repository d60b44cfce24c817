import { open } from 'node:fs/promises';

/** Listing as the peers store it: the collector's stems by weight, the columns of the filters, and what a hit shows. */
export type Document = {
  id: number;
  external_id: string;
  /** Stems of the title (weight A), of facts and places (B), and of all other texts (D), separated by spaces. */
  title: string;
  facts: string;
  body: string;
  /** Listing as JSON, which each hit returns. */
  listing: string;
  /** Only of a document that is inserted alone. */
  vector?: number[];
} & Record<TextColumn, string> &
  Record<NumberColumn, number>;

/** Columns of the filters. A number is -1 if the listing lacks it. */
export const TEXT_COLUMNS = ['city', 'deal_type', 'property_type', 'currency'] as const;
export const NUMBER_COLUMNS = ['price', 'rooms', 'area'] as const;
export type TextColumn = (typeof TEXT_COLUMNS)[number];
export type NumberColumn = (typeof NUMBER_COLUMNS)[number];

/** Fields of searches by words, with the weights of the collector's ranking. */
export const STEM_FIELDS = { title: 10, facts: 4, body: 1 } as const;
export const FIELDS = ['title', 'facts', 'body'] as const;

/** Beginning of the external IDs of documents that are inserted alone. */
export const NEW_PREFIX = 'new-';

/** Files of the documents to load: lines of JSON, and vectors of 32-bit numbers in the same order. */
export type DocumentFiles = { documents: string; vectors: string };

/** Reads the documents of a file, in batches. */
export async function* readDocuments(file: string, batchSize: number): AsyncGenerator<Document[]> {
  await using input = await open(file);
  let batch: Document[] = [];
  for await (const line of input.readLines()) {
    if (batch.push(JSON.parse(line) as Document) < batchSize) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
