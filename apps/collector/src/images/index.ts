export { createSafeFetch, type SafeFetch } from './fetch.ts';
export { createImages, type Images } from './images.ts';
export { removeLeftovers } from './leftovers.ts';
export { ImageError } from './image-error.ts';
export type { ImageEvent, ImageOutcome } from './outcome.ts';
export { imageRoutes } from './routes.ts';
