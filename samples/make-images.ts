/**
 * Draws the images of the sample listings, because photographs could show a private home. Run in the root of the
 * checkout: `node samples/make-images.ts`.
 */
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';

const WIDTH = 960;
const HEIGHT = 640;
const FOLDER = fileURLToPath(new URL('images/', import.meta.url));

const drawRect = (
  x: number,
  y: number,
  width: number,
  height: number,
  fill: string,
  attributes = '',
): string =>
  `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${fill}" ${attributes}/>`;

/** Draws a room: a wall, a floor, and a window that shows the sky. */
function drawRoom(wall: string, floor: string, objects: string): string {
  const planks = Array.from({ length: 8 }, (_, at) =>
    drawRect(0, 470 + at * 22, WIDTH, 2, '#00000022'),
  ).join('');
  const view =
    drawRect(600, 90, 240, 220, '#fdfdfb') +
    drawRect(614, 104, 212, 192, 'url(#sky)') +
    drawRect(714, 104, 12, 192, '#fdfdfb') +
    drawRect(590, 306, 260, 14, '#e8e4da');
  return (
    drawRect(0, 0, WIDTH, 470, wall) + drawRect(0, 470, WIDTH, 170, floor) + planks + view + objects
  );
}

/** Draws an outdoor scene: the sky, the ground, and objects. */
function drawOutside(ground: string, objects: string): string {
  return (
    drawRect(0, 0, WIDTH, HEIGHT, 'url(#sky)') +
    `<circle cx="810" cy="110" r="46" fill="#ffe9a8"/>` +
    drawRect(0, 470, WIDTH, 170, ground) +
    objects
  );
}

function drawWindow(x: number, y: number): string {
  return (
    drawRect(x, y, 74, 92, '#f7f4ea') +
    drawRect(x + 7, y + 7, 60, 78, '#7fa9c4') +
    drawRect(x + 34, y + 7, 6, 78, '#f7f4ea')
  );
}

const SCENES: Record<string, string> = {
  'living-room-sofa': drawRoom(
    '#ece3d0',
    '#b98a5a',
    drawRect(90, 360, 420, 130, '#4c6b8a', 'rx="24"') +
      drawRect(70, 410, 60, 110, '#415d78', 'rx="18"') +
      drawRect(470, 410, 60, 110, '#415d78', 'rx="18"') +
      drawRect(150, 120, 260, 150, '#f7f1e3', 'stroke="#8a6f4d" stroke-width="10"') +
      `<path d="M160 258 L240 180 L300 230 L350 190 L400 258 Z" fill="#9db38a"/>` +
      `<ellipse cx="690" cy="540" rx="150" ry="36" fill="#7a5534"/>`,
  ),
  'kitchen-green': drawRoom(
    '#eef1e4',
    '#d8cfc0',
    drawRect(40, 330, 500, 24, '#e9e2d2') +
      drawRect(40, 354, 500, 150, '#6f8f6a') +
      [40, 165, 290, 415].map((x) => drawRect(x + 6, 364, 112, 130, '#7d9f78', 'rx="4"')).join('') +
      drawRect(40, 80, 500, 110, '#7d9f78') +
      drawRect(300, 316, 110, 14, '#303030') +
      drawRect(110, 280, 12, 50, '#9aa0a3') +
      drawRect(720, 370, 150, 150, '#f4f4f2', 'rx="8" stroke="#c9c9c4" stroke-width="4"') +
      `<circle cx="795" cy="450" r="48" fill="#9db4c0"/>`,
  ),
  'bedroom-blue': drawRoom(
    '#d5e2ec',
    '#a97f55',
    drawRect(90, 290, 430, 60, '#6b4b32', 'rx="8"') +
      drawRect(90, 350, 430, 140, '#fbfaf6', 'rx="14"') +
      drawRect(90, 410, 430, 90, '#5f86a8', 'rx="14"') +
      drawRect(120, 330, 150, 50, '#ffffff', 'rx="20"') +
      drawRect(330, 330, 150, 50, '#ffffff', 'rx="20"') +
      drawRect(540, 410, 70, 90, '#7a5a3c') +
      `<path d="M550 410 L600 410 L590 350 L560 350 Z" fill="#f3d98b"/>`,
  ),
  'bathroom-tiles':
    drawRect(0, 0, WIDTH, HEIGHT, '#dfeaea') +
    Array.from({ length: 16 }, (_, at) => drawRect(at * 60, 0, 2, 470, '#bcd0d0')).join('') +
    Array.from({ length: 8 }, (_, at) => drawRect(0, at * 60, WIDTH, 2, '#bcd0d0')).join('') +
    drawRect(0, 470, WIDTH, 170, '#8fa3a3') +
    drawRect(80, 380, 470, 150, '#ffffff', 'rx="50"') +
    drawRect(660, 330, 180, 50, '#ffffff', 'rx="16"') +
    drawRect(735, 380, 30, 150, '#ffffff') +
    `<ellipse cx="750" cy="190" rx="90" ry="110" fill="#b9d6e4" stroke="#ffffff" stroke-width="12"/>`,
  'balcony-sea':
    drawOutside('#3f86a8', drawRect(0, 430, WIDTH, 60, '#5fa3bf')) +
    drawRect(0, 520, WIDTH, 120, '#c7b299') +
    Array.from({ length: 17 }, (_, at) => drawRect(20 + at * 57, 400, 8, 130, '#4b4b4b')).join('') +
    drawRect(0, 392, WIDTH, 14, '#4b4b4b') +
    drawRect(640, 500, 130, 16, '#8a5a34') +
    drawRect(698, 516, 14, 80, '#8a5a34'),
  'house-brick': drawOutside(
    '#8fb26f',
    drawRect(220, 250, 480, 250, '#b5654a') +
      Array.from({ length: 12 }, (_, at) => drawRect(220, 266 + at * 20, 480, 2, '#9a5139')).join(
        '',
      ) +
      `<path d="M190 250 L460 90 L730 250 Z" fill="#5c4438"/>` +
      drawWindow(270, 300) +
      drawWindow(570, 300) +
      drawRect(420, 340, 84, 160, '#4d3526', 'rx="4"') +
      drawRect(620, 110, 46, 100, '#8c4c38'),
  ),
  'garden-terrace': drawOutside(
    '#7fa35c',
    drawRect(120, 460, 560, 90, '#b58a5e') +
      Array.from({ length: 9 }, (_, at) => drawRect(120 + at * 64, 460, 3, 90, '#8c6642')).join(
        '',
      ) +
      `<circle cx="160" cy="330" r="110" fill="#4f7d46"/>` +
      drawRect(150, 400, 22, 90, '#6b4b32') +
      `<circle cx="800" cy="370" r="90" fill="#5b8a4f"/>` +
      drawRect(792, 430, 18, 80, '#6b4b32') +
      drawRect(330, 410, 190, 16, '#e9e2d2') +
      drawRect(415, 426, 20, 70, '#e9e2d2'),
  ),
  'floor-plan':
    drawRect(0, 0, WIDTH, HEIGHT, '#ffffff') +
    `<g fill="none" stroke="#2b2b2b" stroke-width="10"><path d="M120 90 H840 V550 H120 Z"/>` +
    `<path d="M480 90 V300 M480 380 V550 M120 330 H380 M580 330 H840"/></g>` +
    `<g fill="none" stroke="#2b2b2b" stroke-width="3"><path d="M480 300 A80 80 0 0 1 400 380"/>` +
    `<path d="M380 330 A100 100 0 0 0 480 230"/></g>` +
    drawRect(160, 130, 170, 120, '#e6edf2') +
    drawRect(620, 130, 160, 70, '#e9e2d2') +
    drawRect(620, 420, 170, 90, '#dfeaea'),
};

const SKY =
  '<defs><linearGradient id="sky" x1="0" y1="0" x2="0" y2="1">' +
  '<stop offset="0" stop-color="#8fc1e3"/><stop offset="1" stop-color="#e6f1f7"/>' +
  '</linearGradient></defs>';

await mkdir(FOLDER, { recursive: true });
for (const [name, scene] of Object.entries(SCENES)) {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}">${SKY}${scene}</svg>`;
  await sharp(Buffer.from(svg)).jpeg({ quality: 82, mozjpeg: true }).toFile(`${FOLDER}${name}.jpg`);
}
