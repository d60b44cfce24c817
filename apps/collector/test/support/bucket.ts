import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { buffer } from 'node:stream/consumers';

const SIGNATURE =
  /^AWS4-HMAC-SHA256 Credential=key-id\/\d{8}\/test-region\/s3\/aws4_request, ?SignedHeaders=[\w;-]*host[\w;-]*x-amz-content-sha256[\w;-]*, ?Signature=[0-9a-f]{64}$/;

/** A page of a listing: one object, as a bucket that takes its time. */
function listing(keys: readonly string[], query: URLSearchParams): string {
  const last = query.get('continuation-token') ?? '';
  const [key, ...rest] = keys
    .filter((one) => one.startsWith(query.get('prefix') ?? '') && one > last)
    .toSorted();
  const contents =
    key === undefined
      ? ''
      : `<Contents><Key>${key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>1</Size></Contents>`;
  const next = rest.length === 0 ? '' : `<NextContinuationToken>${key}</NextContinuationToken>`;
  return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${rest.length > 0}</IsTruncated>${contents}${next}</ListBucketResult>`;
}

/** A server that speaks as much of S3 as the image store asks of it, path style, one bucket `pictures`. */
export async function startBucket() {
  const objects = new Map<string, Buffer>();
  const requests: string[] = [];
  const state = {
    /** Whether it cuts every connection. */
    isDown: false,
    /** How many of the next requests are answered 503 SlowDown. */
    slowDowns: 0,
    /** What is put waits for this before it is read. */
    taking: Promise.resolve(),
    /** Whether it keeps whoever wants to delete waiting. */
    keepsAll: false,
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const { pathname, searchParams } = new URL(url, 'http://bucket.test');
    requests.push(`${method} ${pathname}`);
    if (state.isDown) return void request.socket.destroy();
    if (method === 'PUT') await state.taking;
    const body = await buffer(request);
    const fail = (status: number, code: string) => {
      response.writeHead(status, { 'content-type': 'application/xml' });
      const xml = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`;
      response.end(method === 'HEAD' ? undefined : xml);
    };
    if (!SIGNATURE.test(headers.authorization ?? '')) return fail(403, 'SignatureDoesNotMatch');
    if (!`${pathname}/`.startsWith('/pictures/')) return fail(404, 'NoSuchBucket');
    if (state.slowDowns > 0) {
      state.slowDowns -= 1;
      return fail(503, 'SlowDown');
    }
    const key = pathname.slice('/pictures/'.length);
    if (method === 'PUT') {
      // Nothing that is not whole is stored, so nobody ever sees a half.
      if (body.length !== Number(headers['content-length'])) return fail(400, 'IncompleteBody');
      objects.set(key, body);
      response.writeHead(200, { etag: '"stored"' }).end();
      return;
    }
    if (method === 'DELETE') {
      if (state.keepsAll) return;
      // As S3 has it: also where there is nothing.
      objects.delete(key);
      response.writeHead(204).end();
      return;
    }
    if (searchParams.has('list-type')) {
      response.writeHead(200, { 'content-type': 'application/xml' });
      response.end(listing([...objects.keys()], searchParams));
      return;
    }
    const object = objects.get(key);
    if (object === undefined) return fail(404, 'NoSuchKey');
    response.writeHead(200, { 'content-length': object.length, etag: '"stored"' });
    response.end(method === 'HEAD' ? undefined : object);
  }

  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const env = {
    IMAGE_STORE: 's3',
    S3_ENDPOINT: `http://127.0.0.1:${port}`,
    S3_REGION: 'test-region',
    S3_BUCKET: 'pictures',
    S3_ACCESS_KEY_ID: 'key-id',
    S3_SECRET_ACCESS_KEY: 'secret',
    S3_FORCE_PATH_STYLE: 'true',
  };
  return { env, objects, requests, state };
}
