export { isOutdated as isOutdatedPicture } from './descriptions.sql.ts';
export { COPY_BITS, hammingDistance } from './fingerprint.ts';
export { createImages, type Images } from './images.ts';
export type { ImageEvent, ImageOutcome } from './outcome.ts';
export { imageRoutes } from './routes.ts';
export type { Asked } from './refusal.ts';
export { openImageStore, type OpenStore } from './store/open.ts';
export { MAX_IMAGE_BYTES, saveTemporary, type UploadedFile } from './temporary-file.ts';
export { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.ts';
