import { createTheme, type MantineColorsTuple } from '@mantine/core';

/** Green of a garden seen through a window; the sixth shade is that of the logo. */
const garden: MantineColorsTuple = [
  '#eef8f2',
  '#dcefe4',
  '#b6dec8',
  '#8dccaa',
  '#6bbd91',
  '#48a376',
  '#2f7d5b',
  '#266a4d',
  '#1d5740',
  '#134430',
];

export const theme = createTheme({
  colors: { garden },
  primaryColor: 'garden',
  primaryShade: { light: 6, dark: 5 },
  autoContrast: true,
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  headings: { fontWeight: '650' },
});
