import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { imageDescription, ObjectRequest } from '@oselya/model';
import { openFolder, deferCleanup } from '@oselya/testing';
import { openDatabase, log, emptyImageService } from './pipeline.ts';
import type { Kysely } from 'kysely';
import sharp from 'sharp';
import { Value } from 'typebox/value';
import { createDisk } from '../../src/free-disk-space.ts';
import type { VisionClient } from '../../src/images/describe.ts';
import { openLocalFolder } from '../../src/images/backends.ts';
import {
  createImageService,
  type ImageEvent,
  type ImageServiceOptions,
} from '../../src/images/image-service.ts';
import { createImageStore } from '../../src/images/store.ts';
import { createTemporaryFolder } from '../../src/images/temporary.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import type { Tables } from '../../src/tables.ts';

export type Format = 'jpeg' | 'png' | 'webp' | 'avif' | 'gif';

export const FORMATS: readonly Format[] = ['jpeg', 'png', 'webp', 'avif', 'gif'];

/** Creates an image of one colour. */
export function createImage(
  format: Format,
  options: { width?: number; height?: number; colour?: string; orientation?: number } = {},
): Promise<Buffer> {
  const { width = 64, height = 48, colour = 'teal', orientation } = options;
  const image = sharp({ create: { width, height, channels: 3, background: colour } });
  if (orientation !== undefined) image.withMetadata({ orientation });
  return image.toFormat(format).toBuffer();
}

export const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Starts a server on a free loopback port. The server stops after the tests of the file. */
export async function startServer(listener: RequestListener, host = '127.0.0.1') {
  const server = createServer(listener);
  await once(server.listen(0, host), 'listening');
  deferCleanup(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}`,
    /** Counts the open connections. */
    connections: promisify(server.getConnections.bind(server)),
  };
}

/** Starts a server, and returns its URL. */
export async function serve(listener: RequestListener, host?: string): Promise<string> {
  return (await startServer(listener, host)).url;
}

/** Starts an image host, which responds with 404 to paths without content. */
export async function openImageHost() {
  const requestedPaths: string[] = [];
  const content = new Map<string, Buffer>();
  const url = await serve(({ url: path = '' }, response) => {
    requestedPaths.push(path);
    const bytes = content.get(path);
    response.writeHead(bytes === undefined ? 404 : 200).end(bytes);
  });

  async function putImage(path: string, ...options: Parameters<typeof createImage>) {
    const bytes = await createImage(...options);
    content.set(path, bytes);
    return { url: url + path, sha256: sha256(bytes), bytes };
  }

  return { url, requestedPaths, content, putImage };
}

/** Starts an image host. Each path that ends in `.png` has an image of a different colour. */
export function serveImages() {
  return startServer(({ url: name = '' }, response) => {
    if (!name.endsWith('.png')) {
      response.writeHead(404).end();
      return;
    }
    const colour = `#${sha256(Buffer.from(name)).slice(0, 6)}`;
    void createImage('png', { width: 16, height: 12, colour }).then((bytes) => response.end(bytes));
  });
}

/** Request to the vision model. */
export type VisionRequest = Pick<
  ObjectRequest<typeof imageDescription.schema>,
  'data' | 'image' | 'operation'
>;

/** Creates a vision model with a constant description, and records its requests. */
export function createVisionModel(
  beforeResponse: (request: VisionRequest) => void | Promise<void> = () => undefined,
  description = ' A bright\0 kitchen. ',
) {
  const visionRequests: VisionRequest[] = [];
  const model: VisionClient = {
    visionModel: 'eyes',
    async generateObject({ schema, data, image, operation }) {
      visionRequests.push({ data, image, operation });
      await beforeResponse({ data, image, operation });
      const answer = { description, room_type: 'kitchen', quality: 'good' };
      const usage = { calls: 1, inputTokens: 0, outputTokens: 0 };
      return { value: Value.Parse(schema, answer), model: 'eyes-1', usage };
    },
  };
  return { model, visionRequests };
}

/** Opens a database and a folder of images. */
export async function openImages() {
  const database = await openDatabase();
  const { db } = database;
  const folder = await openFolder();
  const getTemporaryFolder = () => join(folder, 'incoming');
  await mkdir(getTemporaryFolder());
  await db.insertInto('sources').values({ slug: 'board' }).execute();
  const { store } = createImageStore(openLocalFolder(folder, getTemporaryFolder), { log });
  let listingCount = 0;

  /** Adds a listing whose payload is being processed. */
  async function addListing() {
    listingCount += 1;
    const listingKey = { source_slug: 'board', external_id: String(listingCount) };
    const { id: rawId } = await db
      .insertInto('raw_data')
      .values({
        ...listingKey,
        payload: '{}',
        content_hash: listingKey.external_id,
        status: 'processing',
        attempt: 1,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const textColumns = { description: 'оселя', search_text: 'оселя', attributes: '{}' };
    const { id: listingId } = await db
      .insertInto('property_listings')
      .values({ ...listingKey, ...textColumns, phones: [], features: [] })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db
      .insertInto('listing_payloads')
      .values({ ...listingKey, raw_id: rawId })
      .execute();
    return { listingId, fence: { rawId, attempt: 1 }, signal: new AbortController().signal };
  }

  function openService(options: Partial<ImageServiceOptions> = {}) {
    const events: ImageEvent[] = [];
    const warnings: Record<string, unknown>[] = [];
    const images = createImageService({
      db,
      store,
      storeState: { toOutageError: (error) => error },
      getTemporaryFolder,
      disk: createDisk({ folder, minFreeMb: 0 }),
      fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
      model: createVisionModel().model,
      log: { warn: (fields: Record<string, unknown>) => void warnings.push(fields) },
      observe: (event) => events.push(event),
      limits: { retryDelayMs: 1 },
      ...options,
    });
    return { images, events, warnings };
  }

  const readRows = (listingId: number) =>
    db
      .selectFrom('listing_images')
      .select(['position', 'url', 'sha256', 'error', 'retry_at'])
      .where('listing_id', '=', listingId)
      .orderBy('position')
      .execute();

  const findImage = (hash: string) =>
    db.selectFrom('images').selectAll().where('sha256', '=', hash).executeTakeFirst();

  /** Lists the names of stored and temporary files, without thumbnails. */
  const listFiles = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('thumbnails'))
      .map((entry) => entry.name);

  const getPath = (hash: string) => join(folder, hash.slice(0, 2), hash.slice(2, 4), hash);

  return {
    ...database,
    folder,
    store,
    addListing,
    openService,
    readRows,
    findImage,
    listFiles,
    getPath,
  };
}

/**
 * Opens the image service of a worker in a folder that workers share. Without a folder, the service finds no images.
 */
export async function openWorkerImages({
  db,
  model,
  folder,
}: {
  db: Kysely<Tables>;
  folder: string | undefined;
} & Pick<ImageServiceOptions, 'model'>) {
  if (folder === undefined) return { images: emptyImageService, close: () => Promise.resolve() };
  await mkdir(folder, { recursive: true });
  const temporaryFolder = createTemporaryFolder(join(folder, 'incoming'));
  await temporaryFolder.sweep();
  const images = createImageService({
    db,
    model,
    store: createImageStore(openLocalFolder(folder, temporaryFolder.path), { log }).store,
    storeState: { toOutageError: (error) => error },
    getTemporaryFolder: temporaryFolder.path,
    disk: createDisk({ folder, minFreeMb: 0 }),
    fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
    log,
  });
  return { images, close: temporaryFolder.close };
}
