import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Payload } from '../../src/ingest/payload.ts';

export type FormFile = { name: string; bytes: Uint8Array<ArrayBuffer> };

/** What `POST /ingest/with-images` answers, with what tests ask of it. */
export type FormAnswer = {
  status: number;
  headers: Headers;
  body: {
    raw_id: number;
    status: string;
    listing_id: number;
    images: {
      sha256?: string;
      width?: number;
      height?: number;
      duplicate?: boolean;
      error?: string;
    }[];
    code: string;
    detail: string;
    errors?: { path: string; message: string }[];
  };
};

/** A form as a browser makes it, the field before the files unless `metadataLast`. */
export function formOf(
  metadata: Payload | string,
  files: readonly FormFile[],
  { metadataLast = false } = {},
): FormData {
  const form = new FormData();
  const text = typeof metadata === 'string' ? metadata : JSON.stringify(metadata);
  if (!metadataLast) form.append('metadata', text);
  for (const { name, bytes } of files) form.append('images', new Blob([bytes]), name);
  if (metadataLast) form.append('metadata', text);
  return form;
}

/** Sends a form, or anything else, to a collector. */
export async function sendForm(
  url: string,
  body: FormData | string | undefined,
  headers: Record<string, string> = {},
): Promise<FormAnswer> {
  const response = await fetch(`${url}/api/v1/ingest/with-images`, {
    method: 'POST',
    headers,
    ...(body === undefined ? {} : { body }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as FormAnswer['body'],
  };
}

/** The temporary files of a collector's data folder, without the locks beside them. */
export async function temporaryFiles(dataDir: string): Promise<string[]> {
  const entries = await readdir(join(dataDir, 'images', 'incoming'), {
    recursive: true,
    withFileTypes: true,
  }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('lock'))
    .map((entry) => entry.name);
}
