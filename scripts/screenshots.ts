/**
 * Takes the screenshots of the README in Chromium: starts the platform with the sample listings in a temporary folder,
 * and writes `docs/images/*.webp`.
 *
 *   npm run screenshots
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import sharp from 'sharp';

const ROOT = join(import.meta.dirname, '..');
const OUTPUT_FOLDER = join(ROOT, 'docs/images');
const [ASSISTANT_PORT, COLLECTOR_PORT, DEV_IDP_PORT] = ['18000', '18001', '18002'];
const URL_ORIGIN = `http://127.0.0.1:${ASSISTANT_PORT}`;
const IMAGE_WIDTH = 1200;
const QUALITY = 62;

type Shot = {
  name: string;
  path: string;
  theme: 'light' | 'dark';
  prepare?: (page: Page) => Promise<void>;
};

const SHOTS: readonly Shot[] = [
  {
    name: 'console-search',
    path: '/app/search?has_images=true',
    theme: 'light',
    prepare: async (page) => {
      await page.locator('[data-action=compare]').first().click();
      await page.locator('select[data-action=status]').nth(1).selectOption('viewing');
    },
  },
  { name: 'console-listing', path: '/app/listings/41', theme: 'dark' },
];

const dataDir = await mkdtemp(join(tmpdir(), 'oselya-screenshots-'));
const platform = spawn(process.execPath, [join(ROOT, 'apps/cli/bin/oselya.js'), 'dev'], {
  env: {
    ...process.env,
    DATA_DIR: dataDir,
    ASSISTANT_PORT,
    COLLECTOR_PORT,
    DEV_IDP_PORT,
    BASE_URL: URL_ORIGIN,
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const closed = once(platform, 'close');
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
try {
  await new Promise<void>((resolve, reject) => {
    platform.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('sample listings are processed')) resolve();
    });
    platform.on('exit', () => reject(new Error('The platform ended')));
  });
  await mkdir(OUTPUT_FOLDER, { recursive: true });
  for (const shot of SHOTS) await takeShot(shot);
} finally {
  await browser.close();
  platform.kill('SIGINT');
  await closed;
  await rm(dataDir, { recursive: true, force: true });
}

async function takeShot({ name, path, theme, prepare }: Shot): Promise<void> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: theme,
    locale: 'en',
    deviceScaleFactor: 2,
  });
  const page = await context.newPage();
  await page.goto(`${URL_ORIGIN}/auth/login`);
  await page.getByRole('button', { name: 'Olena' }).click();
  await page.goto(URL_ORIGIN + path);
  await page.locator('main h1').waitFor();
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' });
  await prepare?.(page);
  await page.waitForLoadState('networkidle');
  const image = sharp(await page.screenshot())
    .resize(IMAGE_WIDTH)
    .webp({ quality: QUALITY });
  await writeFile(join(OUTPUT_FOLDER, `${name}.webp`), await image.toBuffer());
  await context.close();
}
