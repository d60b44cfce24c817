/** The files of sessions, as everybody else uses them. */

export { toFileName } from './file-name.ts';
export { TEXT_TYPE } from './media-type.ts';
export { type FileInfo, findFile, listFiles } from './repository.ts';
export { fileRoutes } from './routes.ts';
export { createFiles, type Files, MAX_FILES } from './service.ts';
