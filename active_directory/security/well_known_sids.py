"""Accounts every Windows system knows without a directory ([MS-DTYP] 2.4.2.4): names by SID.

Groups of the built-in and the account domain are objects of the directory and have their names there.
"""

from typing import Final

_NAMES: Final = """
    S-1-0-0 Nobody
    S-1-1-0 Everyone
    S-1-2-0 Local
    S-1-2-1 Console Logon
    S-1-3-0 Creator Owner
    S-1-3-1 Creator Group
    S-1-3-2 Creator Owner Server
    S-1-3-3 Creator Group Server
    S-1-3-4 Owner Rights
    S-1-5-1 Dialup
    S-1-5-2 Network
    S-1-5-3 Batch
    S-1-5-4 Interactive
    S-1-5-6 Service
    S-1-5-7 Anonymous Logon
    S-1-5-8 Proxy
    S-1-5-9 Enterprise Domain Controllers
    S-1-5-10 Self
    S-1-5-11 Authenticated Users
    S-1-5-12 Restricted
    S-1-5-13 Terminal Server User
    S-1-5-14 Remote Interactive Logon
    S-1-5-15 This Organization
    S-1-5-17 IUSR
    S-1-5-18 System
    S-1-5-19 Local Service
    S-1-5-20 Network Service
    S-1-5-33 Write Restricted
    S-1-5-64-10 NTLM Authentication
    S-1-5-64-14 SChannel Authentication
    S-1-5-64-21 Digest Authentication
    S-1-5-65-1 This Organization Certificate
    S-1-5-80-0 All Services
    S-1-5-84-0-0-0-0-0 User-Mode Drivers
    S-1-5-113 Local Account
    S-1-5-114 Local Account and Member of Administrators
    S-1-5-1000 Other Organization
    S-1-15-2-1 All Application Packages
    S-1-16-0 Untrusted Mandatory Level
    S-1-16-4096 Low Mandatory Level
    S-1-16-8192 Medium Mandatory Level
    S-1-16-8448 Medium Plus Mandatory Level
    S-1-16-12288 High Mandatory Level
    S-1-16-16384 System Mandatory Level
    S-1-16-20480 Protected Process Mandatory Level
    S-1-16-28672 Secure Process Mandatory Level
    S-1-18-1 Authentication Authority Asserted Identity
    S-1-18-2 Service Asserted Identity
    S-1-18-3 Fresh Public Key Identity
    S-1-18-4 Key Trust Identity
    S-1-18-5 Key Property MFA
    S-1-18-6 Key Property Attestation
"""
WELL_KNOWN_SIDS: Final = dict(line.split(maxsplit=1) for line in _NAMES.strip().splitlines())
