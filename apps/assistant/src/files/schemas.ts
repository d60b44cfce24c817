import { pageQuery } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { timestamp } from '../schema.ts';
import { sessionParams } from '../sessions/index.ts';
import type { FileInfo } from './repository.ts';
import { MAX_FILES } from './service.ts';

/** How many files a page has, unless the caller says and at most: all that a session may have. */
export const FILES_PAGE = { limit: MAX_FILES, maxLimit: MAX_FILES };

/** A path that names a file. What a name must be, `toFileName` says. */
export const fileParams = Type.Object({
  ...sessionParams.properties,
  name: Type.String({
    description:
      'One segment of a path, percent-encoded: no `/`, `\\`, control characters, dots or spaces at its ends, or names that Windows reserves; at most 200 bytes of UTF-8.',
  }),
});

const info = {
  name: Type.String({ description: 'In the normal form C.' }),
  size_bytes: Type.Integer(),
  sha256: Type.String({ description: 'Of the content, in hex.' }),
  media_type: Type.String({ description: 'What it is, by its content.' }),
  updated_at: timestamp(),
};

const example = {
  name: 'план квартири.pdf',
  size_bytes: 48_213,
  sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  media_type: 'application/pdf',
  updated_at: '2026-03-04T17:42:10.000Z',
};

/** What a list of files is asked for with. */
export const filesQuery = Type.Object(pageQuery(FILES_PAGE));

/** A file that was stored. */
export const storedFile = Type.Object(info, { examples: [example] });

/** The files of a session. */
export const filesAnswer = Type.Array(Type.Object({ ...info, created_at: timestamp() }), {
  description: 'By their names.',
  examples: [[{ ...example, created_at: '2026-03-02T09:15:00.000Z' }]],
});

/** A file that was stored, as the API answers it. */
export function presentStored(file: FileInfo): Static<typeof storedFile> {
  return {
    name: file.name,
    size_bytes: file.size_bytes,
    sha256: file.sha256,
    media_type: file.media_type,
    updated_at: file.updated_at.toISOString(),
  };
}

/** A file of a list, as the API answers it. */
export function presentFile(file: FileInfo): Static<typeof filesAnswer>[number] {
  return { ...presentStored(file), created_at: file.created_at.toISOString() };
}
