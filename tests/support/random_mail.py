"""Mails that answer, forward and resemble each other at random."""

from __future__ import annotations

import random


def made(number: int, coins: random.Random, count: int) -> bytes:
    answered = [f"<{coins.randrange(count)}@b>" for _ in range(coins.choice((0, 0, 1, 1, 2)))]
    lines = [
        f"From: p{coins.randrange(3)}@b.org",
        f"To: p{coins.randrange(3)}@b.org, q@b.org",
        f"Subject: {coins.choice(('', 'Re: ', 'Fwd: '))}{coins.choice(('plans', 'lunch', ''))}",
        f"Date: {coins.randrange(1, 28)} Jan 2026 10:00:00 +0000",
        *([f"Message-ID: <{number}@b>"] if coins.random() < 0.9 else []),
        *([f"References: {' '.join(answered)}"] if answered else []),
    ]
    return ("\r\n".join(lines) + f"\r\n\r\ntext {number}\r\n").encode()
